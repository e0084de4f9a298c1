"""`python -m benchmarks.e2e`: on a real API server, in turn: the API alone, kube-scheduler and stowplan.

For each load, one control plane is started (etcd without fsync, kube-apiserver with RBAC); the sides take
turns on it with the same pods. Everything shares this machine, so only the ratios of one run say anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import e2e_measure as measure
from benchmarks.e2e_loads import Batch, Load, Ready, Steady, filling, loads, node_posts, pod_posts
from benchmarks.e2e_measure import Bench, Figures
from benchmarks.e2e_server import PODS, Server
from benchmarks.e2e_sides import Side, install, stowplan, upstream, works, write_config
from benchmarks.e2e_table import header, lines
from tests.control_plane import binaries
from tests.control_plane.plane import Options, start

Row = dict[str, Figures]
"""By side: `api`, `upstream`, `stowplan`."""


async def measure_load(load: Load, sides: Sequence[Side], runs: int, keep_logs: Path | None) -> Row:
    """One control plane; on it each side, and the API alone where that says something."""
    collected: dict[str, list[Figures]] = {}
    with (
        start(Options(priority_admission=False)) as plane,
        TemporaryDirectory(prefix="stowplan-bench-") as temporary,
    ):
        folder = Path(temporary)
        async with AsyncExitStack() as stack:
            server = Server(plane.kubeconfig)
            stack.push_async_callback(server.close)
            logs = keep_logs or folder
            logs.mkdir(parents=True, exist_ok=True)
            bench = Bench(server, write_config(plane.kubeconfig, folder / "config.yaml"), logs)
            await server.post_all(node_posts(load.nodes))
            if isinstance(load, Ready):
                await server.post_all(pod_posts(filling(load.nodes, load.placed)))
            for run in range(runs):
                if isinstance(load, Batch) and not load.hard:
                    await _fill(server, load)
                    collected.setdefault("api", []).append(await measure.ceiling(bench, load))
                for side in sides if run % 2 == 0 else reversed(sides):
                    collected.setdefault(side.name, []).append(await _measure_side(bench, load, side))
    return {name: _middle(figures) for name, figures in collected.items()}


async def _measure_side(bench: Bench, load: Load, side: Side) -> Figures:
    match load:
        case Batch():
            await _fill(bench.server, load)
            return await measure.batch(bench, load, side)
        case Steady():
            await bench.server.delete_all(PODS)
            return await measure.steady(bench, load, side)
        case Ready():
            return await measure.ready(bench, load, side)


async def _fill(server: Server, load: Batch) -> None:
    """The same beginning for each side: no pods but those of the load."""
    await server.delete_all(PODS)
    await server.post_all(pod_posts(load.placed()))
    await server.post_all(pod_posts(load.pods()))
    await asyncio.sleep(1)


def _middle(runs: Sequence[Figures]) -> Figures:
    """The run in the middle, by what the load is measured for."""

    def key(figures: Figures) -> float:
        return figures.rate or figures.latency_p99 or figures.elapsed or 0.0

    middle = median(sorted(map(key, runs))) if len(runs) % 2 else sorted(map(key, runs))[len(runs) // 2]
    return next(figures for figures in runs if key(figures) == middle)


def machine() -> dict[str, object]:
    return {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if advice := binaries.missing():
        print(advice, file=sys.stderr)
        return 2
    sides = _sides(options.sides)
    available = loads(quick=options.quick)
    about = machine()
    print(f"{about['cpus']} processors, load {about['load']} before the start, Python {about['python']}")
    print(header(), flush=True)
    report: dict[str, object] = {}
    complete = True
    for name in options.loads or available:
        load, began = available[name], time.perf_counter()
        row = asyncio.run(measure_load(load, sides, options.runs, options.logs))
        print("\n".join(lines(load, row)), flush=True)
        report[name] = {side: figures.shown() for side, figures in row.items()} | {
            "load": _size(load),
            "seconds": round(time.perf_counter() - began, 1),
            "machineLoad": round(os.getloadavg()[0], 2),
        }
        complete = complete and all(figures.bound == figures.expected for figures in row.values())
        if options.json:
            options.json.write_text(json.dumps({"machine": about, "loads": report}, indent=2) + "\n")
    return 0 if complete else 1


def _sides(names: Sequence[str]) -> list[Side]:
    known = {side.name: side for side in (upstream(), stowplan())}
    chosen = [known[name] for name in names]
    if "stowplan" in names:
        install()
        if not works(known["stowplan"].command):
            raise SystemExit("`stowplan run --help` fails, so there is nothing to measure; see --sides")
    return chosen


def _size(load: Load) -> dict[str, object]:
    return {name: value for name, value in vars(load).items() if isinstance(value, int | str | bool)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.e2e", description="Measure schedulers on a real API server."
    )
    parser.add_argument("--quick", action="store_true", help="smaller loads, about three minutes")
    names = list(loads(quick=False))
    parser.add_argument(
        "--loads", nargs="+", choices=names, metavar="NAME", help=f"some of {', '.join(names)}"
    )
    parser.add_argument(
        "--sides", nargs="+", choices=["upstream", "stowplan"], default=["upstream", "stowplan"]
    )
    parser.add_argument("--runs", type=int, default=1, help="turns of each side; the middle one counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep what the schedulers say")
    return parser


if __name__ == "__main__":
    sys.exit(main())
