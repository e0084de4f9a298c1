"""Checks that every command in the given pages exists.

Pages rot silently: a target is renamed, a subcommand goes away. This reads the fenced shell blocks of each
page and the commands named in its sentences and tables, and looks up `make TARGET`, `stowplan COMMAND` with
its flags, `python -m MODULE` and the paths of scripts and tests.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import dropwhile, groupby, takewhile
from pathlib import Path

from stowplan.cli.flags import FlagError, HelpWanted
from stowplan.cli.main import COMMANDS, parser_for
from stowplan.cli.run_flags import RUN_FLAGS

ROOT = Path(__file__).resolve().parents[1]
SHELL_BLOCK = re.compile(
    r"^(?P<indent> *)```(?:sh|bash|shell|console)\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
IN_A_SENTENCE = re.compile(r"`((?:make|(?:\.venv/bin/)?(?:stowplan|python3?)) [^`\n]+)`")
PYTHON = re.compile(r"(.*/)?python3?$")
# Modules that come with Python or with a pinned dependency.
FOREIGN_MODULES = {"pip", "pytest", "venv"}


@dataclass(frozen=True)
class Line:
    number: int
    words: tuple[str, ...]


def main(pages: list[str]) -> int:
    problems = [f"{page}:{problem}" for page in pages for problem in check(Path(page).read_text(), ROOT)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{', '.join(pages)}: {'commands that do not exist' if problems else 'every command exists'}")
    return 1 if problems else 0


def check(text: str, root: Path) -> Iterator[str]:
    """Yields `LINE: what is wrong` for each command that the tree under `root` does not have."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (root / "Makefile").read_text(), re.MULTILINE))
    for line in commands(text):
        if complaint := _complaint(line.words, targets, root):
            yield f"{line.number}: {complaint}"


def commands(text: str) -> Iterator[Line]:
    """Each command of each shell block and sentence, without prompt, comment and continuation."""
    yield from _in_blocks(text)
    prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for command in IN_A_SENTENCE.findall(line):
            yield from (Line(number, words) for words in _split(command))


def _in_blocks(text: str) -> Iterator[Line]:
    for block in SHELL_BLOCK.finditer(text):
        number = text.count("\n", 0, block.start("body"))
        pending = ""
        for raw in block["body"].splitlines():
            number += 1
            pending += raw.strip().removeprefix("$ ")
            if pending.endswith("\\"):
                pending = pending[:-1] + " "
                continue
            yield from (Line(number, words) for words in _split(pending))
            pending = ""


def _split(line: str) -> Iterator[tuple[str, ...]]:
    """The commands of one line: `CI=true make a && make b > log | tail` is `make a`, `make b`, `tail`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for separates, group in groupby(lexer, key=lambda word: set(word) <= set("&|;")):
        words = list(dropwhile(lambda word: re.fullmatch(r"[A-Z_]+=.*", word), group))
        words = list(takewhile(lambda word: not set(word) <= set("<>"), words))
        if words and not separates:
            yield tuple(words)


def _complaint(words: tuple[str, ...], targets: set[str], root: Path) -> str | None:
    program, arguments = words[0], words[1:]
    if program == "make":
        unknown = [
            word for word in arguments if "=" not in word and not word.startswith("-") and word not in targets
        ]
        return f"the Makefile has no target {unknown[0]!r}" if unknown else None
    if Path(program).name == "stowplan":
        return _stowplan_complaint(arguments)
    if PYTHON.match(program):
        return _python_complaint(arguments, root)
    if "/" in program and not program.startswith((".venv/", "/", "~")):
        return None if (root / program).exists() else f"no such file: {program}"
    return None


def _stowplan_complaint(arguments: tuple[str, ...]) -> str | None:
    """What the command itself says of these words; that some are left out is how sentences are written."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    if command and command not in COMMANDS:
        return f"stowplan has no command {command!r}"
    said = StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            if command == "run":
                RUN_FLAGS.parse(arguments[1:])
            else:
                parser_for(arguments).parse_args(arguments)
    except FlagError as problem:
        return None if "needs a value" in str(problem) else f"stowplan run: {problem}"
    except SystemExit as end:
        last = said.getvalue().splitlines()[-1]
        return last if end.code and "are required" not in last else None
    except HelpWanted:
        pass
    return None


def _python_complaint(arguments: tuple[str, ...], root: Path) -> str | None:
    if arguments[:1] == ("-m",) and len(arguments) > 1:
        module = arguments[1]
        if module.partition(".")[0] not in FOREIGN_MODULES and not _module_exists(module, root):
            return f"no such module: {module}"
    paths = [word.partition("::")[0] for word in arguments if re.match(r"(?!\.\./)[\w.]+/", word)]
    missing = [path for path in paths if not (root / path).exists()]
    return f"no such file: {missing[0]}" if missing else None


def _module_exists(module: str, root: Path) -> bool:
    path = Path(*module.split("."))
    return any(
        (base / path).is_dir() or (base / path).with_suffix(".py").exists() for base in (root, root / "src")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
