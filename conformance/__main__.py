"""`python -m conformance [FILE ...]`: per family, how many cases agree; exit code 1 on any difference."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.cases import family_of, own_files, read_cases
from conformance.runner import Outcome, run_case

_SHOWN_CASES = 3
_SHOWN_DIFFERENCES = 4


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    files: list[Path] = options.files or own_files()
    width = max((len(family_of(path)) for path in files), default=0)
    total = agreeing = 0
    started = time.perf_counter()
    for path in files:
        family_started = time.perf_counter()
        try:
            cases = [case for case in read_cases(path) if not options.case or case.id in options.case]
        except (OSError, ValueError) as error:
            print(f"cannot read cases: {error}", file=sys.stderr)
            return 2
        outcomes = [run_case(case) for case in cases]
        agreed = sum(outcome.agrees for outcome in outcomes)
        total, agreeing = total + len(outcomes), agreeing + agreed
        seconds = time.perf_counter() - family_started
        print(
            f"{family_of(path):{width}}  {agreed:4} of {len(outcomes):4} agree  {seconds:6.2f} s", flush=True
        )
        _report([outcome for outcome in outcomes if not outcome.agrees], everything=options.verbose == "all")
    print(f"{'all':{width}}  {agreeing:4} of {total:4} agree  {time.perf_counter() - started:6.2f} s")
    if not total:
        print("no case was run", file=sys.stderr)
    return 0 if total and agreeing == total else 1


def _report(disagreeing: Sequence[Outcome], *, everything: bool) -> None:
    """The first differences; or all of them."""
    shown = disagreeing if everything else disagreeing[:_SHOWN_CASES]
    for outcome in shown:
        lines = outcome.differences if everything else outcome.differences[:_SHOWN_DIFFERENCES]
        for line in lines:
            print(f"    {outcome.case}: {line}")
        if len(lines) < len(outcome.differences):
            print(f"    {outcome.case}: and {len(outcome.differences) - len(lines)} more")
    if len(shown) < len(disagreeing):
        print(f"    and {len(disagreeing) - len(shown)} more cases (-v all shows everything)")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description="Compare this scheduler's decisions with kube-scheduler's."
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="files of cases; by default those of the project"
    )
    parser.add_argument(
        "-v", "--verbose", choices=["first", "all"], default="first", help="which differences to show"
    )
    parser.add_argument(
        "--case", action="append", metavar="ID", help="run only this case; may be given again"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
