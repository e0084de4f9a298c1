"""`python -m tests.soak`: the long run. Exit code 0 when nothing was wrong, 1 when something was."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.control_plane import binaries
from tests.control_plane.plane import Options, start
from tests.soak.soak import Settings, soak


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if advice := binaries.missing():
        print(advice, file=sys.stderr)
        return 2
    settings = Settings(options.pods, options.nodes, options.faults, options.seed)
    folder = options.logs or Path(tempfile.mkdtemp(prefix="stowplan-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{settings.pods:,} pods, {settings.nodes} nodes, {settings.faults} faults, seed {settings.seed}; "
        f"load {os.getloadavg()[0]:.1f}; logs in {folder}",
        flush=True,
    )
    with start(Options()) as plane:
        report = asyncio.run(soak(plane, settings, folder, lambda line: print(line, flush=True)))
    (folder / "report.json").write_text(report.encoded() + "\n")
    for name, value in report.facts.items():
        print(f"{name}: {value}")
    bad = sum(not fault.good for fault in report.faults) + len(report.problems)
    print("nothing was wrong" if report.good else f"{bad} faults or checks went wrong")
    return 0 if report.good else 1


def _parser() -> argparse.ArgumentParser:
    usual = Settings()
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description="Schedule pods while everything around fails."
    )
    parser.add_argument("--pods", type=int, default=usual.pods)
    parser.add_argument("--nodes", type=int, default=usual.nodes)
    parser.add_argument("--faults", type=int, default=usual.faults)
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="where logs and report.json go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
