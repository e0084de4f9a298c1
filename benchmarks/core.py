"""`python -m benchmarks.core`: decisions per second of the core alone, beside kube-scheduler's.

A decision is: bring the state up to date, decide, assume. No API server, no queue, no binding. This project
looks at all nodes; kube-scheduler is measured with its default sampling (500 feasible nodes of 5,000) and, on
fewer pods, looking at all nodes too. The two sides take turns, and medians are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import filling, ours, upstream
from benchmarks.loads import Load, of_kind, preemption, unplaceable

KINDS = ("basic", "spread", "anti", "affinity", "nodeaff", "mixed", "unique")
SIZES = (1000, 5000, 15000)
_FOR_UPSTREAM = 1000
"""kube-scheduler gets at most so many pods, and fewer still where it takes tens of milliseconds for each:
what counts is the rate, which hardly changes with their number."""
_FOR_SLOW_UPSTREAM = 150
_HEADER = (
    f"{'nodes':>6}  {'load':16} {'pods':>6}  {'stowplan/s':>10}  {'upstream/s':>10} {'ratio':>6}"
    f"  {'all nodes/s':>11} {'ratio':>6}"
)


@dataclass
class Row:
    """A line of the table: median rates, None where not measured."""

    nodes: int
    load: str
    pods: int
    stowplan: float
    upstream: float | None = None
    upstream_all_nodes: float | None = None
    placed: int = 0
    preempted: int = 0

    def text(self) -> str:
        line = f"{self.nodes:6}  {self.load:16} {self.pods:6}  {self.stowplan:10,.0f}"
        for rate, width in ((self.upstream, 10), (self.upstream_all_nodes, 11)):
            if rate is None:
                line += f"  {'-':>{width}} {'-':>6}"
            else:
                line += f"  {rate:{width},.0f} {self.stowplan / rate:5.1f}x"
        return line


@dataclass
class Plan:
    """A load for each side: this one's, kube-scheduler's, and kube-scheduler's when it looks at all nodes."""

    mine: Load
    theirs: Load
    theirs_all_nodes: Load | None = None


def plans(sizes: Sequence[int], kinds: Sequence[str], pods: int, *, quick: bool) -> Iterator[Plan]:
    few = min(pods, _FOR_SLOW_UPSTREAM)
    for size in sizes:
        for kind in kinds:
            if kind in KINDS:
                loads = [of_kind(kind, size, number) for number in (pods, min(pods, _FOR_UPSTREAM), few)]
                yield Plan(*loads)
    if "toobig" in kinds:
        size, number = (1000, pods) if quick else (5000, 10_000)
        yield Plan(unplaceable(size, number), unplaceable(size, few))
    if "preempt" in kinds:
        for size, lesser, cpu, number in ((250, 40, 800, 500), (1000 if quick else 5000, 4, 4000, 1000)):
            number = min(number, pods) if quick else number
            yield Plan(preemption(size, lesser, cpu, number), preemption(size, lesser, cpu, few))


def measure(plan: Plan, program: Path | None, runs: int) -> Row:
    """The sides take turns, so that whatever else the machine does hits both. Looking at all nodes is there
    for comparison only: once is enough."""
    mine, theirs = [], []
    for _ in range(runs):
        mine.append(ours.run(plan.mine))
        if program is not None:
            theirs.append(upstream.run(program, plan.theirs))
    all_nodes = None
    if program is not None and plan.theirs_all_nodes is not None:
        all_nodes = upstream.run(program, plan.theirs_all_nodes, percentage=100).rate
    first = mine[0]
    return Row(
        plan.mine.nodes,
        plan.mine.name,
        first.pods,
        median(run.rate for run in mine),
        median(run.rate for run in theirs) if theirs else None,
        all_nodes,
        first.placed,
        first.preempted,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    quick = options.quick
    sizes = options.nodes or (SIZES[:2] if quick else SIZES)
    pods = options.pods or (300 if quick else 2000)
    runs = options.runs or (1 if quick else 3)
    kinds = options.kinds or [*KINDS, "toobig", "preempt", "filled"]
    program = None if options.no_upstream else upstream.find_or_build()
    print(_HEADER, flush=True)
    rows = []
    for plan in plans(sizes, kinds, pods, quick=quick):
        row = measure(plan, program, runs)
        rows.append(row)
        print(row.text(), flush=True)
    full = filling.measure(5000, 50_000) if "filled" in kinds else None
    if full:
        print(
            f"5,000 nodes and {full['pods']:,.0f} placed pods: loaded in {full['seconds']:.2f} s, "
            f"{full['resident']:.0f} MB resident ({full['before']:.0f} before)"
        )
    if options.json:
        options.json.write_text(json.dumps(_report(rows, full), indent=2) + "\n")
    return 0


def _report(rows: Sequence[Row], full: dict[str, float] | None) -> dict[str, object]:
    machine = {
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    return {"machine": machine, "decisionsPerSecond": [vars(row) for row in rows], "filled": full}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description="Measure the core alone.")
    parser.add_argument("--quick", action="store_true", help="fewer nodes and pods, one run each")
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=[*KINDS, "toobig", "preempt", "filled"],
        metavar="KIND",
        help=f"some of {', '.join(KINDS)}, toobig, preempt, filled",
    )
    parser.add_argument("--nodes", nargs="+", type=int, metavar="N", help="cluster sizes")
    parser.add_argument("--pods", type=int, help="pods to decide per load")
    parser.add_argument("--runs", type=int, help="how often each load is measured; the median counts")
    parser.add_argument("--no-upstream", action="store_true", help="leave kube-scheduler out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
