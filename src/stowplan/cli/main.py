"""Entry point of the `stowplan` command.

`stowplan --help` answers at once because a command's module is imported only when that command was asked for.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Protocol, cast

from stowplan import __version__

# One line each; the module of the same name in this folder does the rest.
COMMANDS = {
    "config": "check, convert and complete configuration files",
    "demo": "decide a small bundled cluster and show which pod goes where, and why",
    "explain": "say where a pod of some manifests would go, and what every plugin says of every node",
    "run": "schedule the pods of a cluster, as kube-scheduler does and with its flags",
}
OWN_DIALECT = frozenset({"run"})
"""Commands that read their words themselves, by `run_words`: their flags are those of other programs."""


class Command(Protocol):
    """What a command's module provides. Its docstring is the text of `stowplan COMMAND --help`."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Does the work and returns the exit code."""
        ...


class CommandError(Exception):
    """Something the user can put right: shown as one line, without a traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every terminal knows every character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(words)
        if sys.stdout:  # it is None when it was closed (`>&-`)
            sys.stdout.flush()
        return code
    except CommandError as error:
        print(f"stowplan: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        _write_no_more()
        return 0
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        print(f"stowplan: {problem.filename or 'the output'}: {problem.strerror}", file=sys.stderr)
        _write_no_more()
        return 1
    except KeyboardInterrupt:
        return 130


def _write_no_more() -> None:
    """Otherwise Python complains again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    if words and words[0] in OWN_DIALECT:
        run_words: Callable[[Sequence[str]], int] = _module(words[0]).run_words
        return run_words(words[1:])
    arguments = parser_for(words).parse_args(words)
    return _load(arguments.command).run(arguments)


def parser_for(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of these words, in which only the command that they name is complete."""
    wanted = next((word for word in words if not word.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog="stowplan",
        description="The Kubernetes scheduler in Python: the same decisions, faster, explained.",
    )
    parser.add_argument("--version", action="version", version=f"stowplan {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == wanted and name not in OWN_DIALECT:
            _load(name).add_arguments(command)
            command.description = _load(name).__doc__
    return parser


def _load(name: str) -> Command:
    return cast(Command, _module(name))


def _module(name: str) -> ModuleType:
    return import_module(f"stowplan.cli.{name.replace('-', '_')}")
