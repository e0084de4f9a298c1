"""Figures as people read them: a line for each side of a load, with ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.e2e_loads import Batch, Load, Ready, Steady
from benchmarks.e2e_measure import Figures

_COLUMNS: tuple[tuple[str, int, Callable[[Figures], float | None], str], ...] = (
    ("pods/s", 8, lambda f: f.rate, ",.0f"),
    ("start→first s", 14, lambda f: f.first, ".1f"),
    ("start→last s", 13, lambda f: f.elapsed, ".1f"),
    ("p50 ms", 7, lambda f: f.latency_median, ".1f"),
    ("p99 ms", 7, lambda f: f.latency_p99, ".1f"),
    ("CPU ms/pod", 11, lambda f: f.cpu_per_pod, ".2f"),
    ("running", 8, lambda f: f.cpu_per_pod_running, ".2f"),
    ("MB", 6, lambda f: f.resident, ",.0f"),
)


def header() -> str:
    return f"{'load':28} {'side':9}" + "".join(f"{title:>{width}}" for title, width, _, _ in _COLUMNS)


def lines(load: Load, row: Mapping[str, Figures]) -> Iterator[str]:
    """A line for each side, then what the ratios are."""
    title = _title(load)
    for side, figures in row.items():
        line = f"{title:28} {side:9}"
        for _, width, value, form in _COLUMNS:
            found = value(figures)
            line += f"{'-' if found is None else format(found, form):>{width}}"
        if figures.bound != figures.expected:
            line += f"  {figures.bound} of {figures.expected} bound"
        if figures.note:
            line += f"  {figures.note}"
        yield line
        title = ""
    if said := "; ".join(ratios(load, row)):
        yield f"{'':28} {said}"


def ratios(load: Load, row: Mapping[str, Figures]) -> Iterator[str]:
    ours, theirs, api = row.get("stowplan"), row.get("upstream"), row.get("api")
    if ours is not None and theirs is not None:
        yield from _against_upstream(load, ours, theirs)
    if api is not None and api.rate:
        for side, figures in row.items():
            if side != "api" and figures.rate:
                yield f"{side} has {100 * figures.rate / api.rate:.0f} % of the API's rate"


def _against_upstream(load: Load, ours: Figures, theirs: Figures) -> Iterator[str]:
    if isinstance(load, Batch) and not load.hard and ours.rate and theirs.rate:
        yield f"{ours.rate / theirs.rate:.2f} × upstream's rate"
    timed = isinstance(load, Ready) or (isinstance(load, Batch) and load.hard)
    if timed and ours.elapsed and theirs.elapsed:
        yield f"{theirs.elapsed / ours.elapsed:.2f} × as fast as upstream"
    if isinstance(load, Steady) and ours.latency_p99 and theirs.latency_p99:
        yield f"p99 {ours.latency_p99 / theirs.latency_p99:.2f} × upstream's"
    if ours.cpu_per_pod and theirs.cpu_per_pod:
        yield f"CPU {ours.cpu_per_pod / theirs.cpu_per_pod:.2f} ×"
    elif ours.cpu_per_pod_running and theirs.cpu_per_pod_running:
        yield f"CPU {ours.cpu_per_pod_running / theirs.cpu_per_pod_running:.2f} ×"
    if ours.resident and theirs.resident:
        yield f"memory {ours.resident / theirs.resident:.2f} ×"


def _title(load: Load) -> str:
    match load:
        case Batch():
            return f"{load.name} ({load.nodes:,} nodes, {load.bindings:,})"
        case Steady():
            return f"{load.name} ({load.nodes:,} nodes, {load.rate}/s)"
        case Ready():
            return f"{load.name} ({load.nodes:,} nodes, {load.placed:,})"
