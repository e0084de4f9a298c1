"""`python -m tests.fuzz`: the long run. Exit code 0 when nothing was wrong, 1 when something was."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from tests.fuzz.growing import grow
from tests.fuzz.trying import Fuzzer

_SAY_EVERY = 10.0
_MOST_SHOWN = 2_000


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    fuzzer = Fuzzer()
    numbers = range(options.first, options.first + options.inputs)
    try_all(fuzzer, options.seed, numbers, lambda line: print(line, flush=True))
    for finding in fuzzer.findings:
        print(
            f"\nseed {options.seed}, input {finding.number}: {finding.text[:_MOST_SHOWN]}\n{finding.problem}"
        )
        print(f'again: make fuzz ARGS="--seed {options.seed} --first {finding.number} --inputs 1"')
    print(_summary(fuzzer))
    return 1 if fuzzer.findings else 0


def try_all(fuzzer: Fuzzer, seed: int, numbers: Iterable[int], say: Callable[[str], None]) -> None:
    """One input after the other, with a word now and then."""
    said = time.monotonic()
    for number in numbers:
        fuzzer.try_out(grow(seed, number))
        if time.monotonic() - said > _SAY_EVERY:
            said = time.monotonic()
            say(_summary(fuzzer))


def _summary(fuzzer: Fuzzer) -> str:
    tried = ", ".join(f"{count:,} {step}" for step, count in fuzzer.tried.most_common())
    return f"{tried}; the slowest took {fuzzer.slowest:.2f} s; {len(fuzzer.findings)} went wrong"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Try objects that make little sense, one after the other."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=20_000, help="how many to try")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    return parser


if __name__ == "__main__":
    sys.exit(main())
