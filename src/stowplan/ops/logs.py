"""Log lines as klog writes them (text or JSON), so that whatever reads kube-scheduler's logs reads these.

    log.info("bound", extra={"pod": "default/web-1", "node": "n1"})
    I1118 22:28:44.123456    4711 live.py:42] "bound" pod="default/web-1" node="n1"

What `extra` holds stands in the line as key and value. Secrets that got into a text do not get out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, Final, TextIO

ROOT: Final = "stowplan"
_SEVERITY: Final = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_HIDDEN: Final = "[redacted]"
_SECRETS: Final = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {_HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)?"), _HIDDEN),
    (
        re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
        _HIDDEN,
    ),
    (re.compile(r"(?i)([a-z][a-z0-9+.-]*://[^\s/@:]*):[^\s/@]+@"), rf"\1:{_HIDDEN}@"),
    (
        re.compile(
            r"""(?i)([\w-]*(?:token|password|secret-?key|key-?data)\\?["']?\s*[:=]\s*)(\\?["']?)[^\s"'\\,}]+"""
        ),
        rf"\1\2{_HIDDEN}",
    ),
)


def redacted(text: str) -> str:
    """The text without tokens, passwords and private keys."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def threshold(verbosity: int) -> int:
    """The lowest level of Python's logging that `-v` shows: 4 and up shows debug messages."""
    return logging.INFO - verbosity if verbosity < 4 else max(logging.DEBUG + 4 - verbosity, 1)


def verbosity_of(level: int) -> int:
    """The `-v` from which on a level is shown."""
    if level >= logging.INFO:
        return 0
    return logging.INFO - level if level > logging.DEBUG + 6 else max(logging.DEBUG + 4 - level, 4)


@dataclass(frozen=True)
class LogSettings:
    """What the command line says about logs."""

    format: str = "text"
    verbosity: int = 0
    modules: tuple[tuple[str, int], ...] = ()
    """Patterns of file names (without .py), each with a verbosity of its own."""
    split: bool = False
    """Errors to standard error, everything else to standard output."""
    buffer_size: int = 0
    """How many characters of what is no error may wait for a flush; only with `split`."""


class Logs:
    """The logging of this process."""

    def __init__(
        self, settings: LogSettings, *, errors: TextIO | None = None, output: TextIO | None = None
    ) -> None:
        self._settings = settings
        self._handler = _Handler(settings, errors or sys.stderr, output or sys.stdout)
        self._root = logging.getLogger()

    def start(self) -> None:
        """From now on everything that is logged in this process goes here."""
        self._root.handlers[:] = [self._handler]
        # What other libraries tell in passing is not for the users of a scheduler.
        self._root.setLevel(logging.WARNING)
        logging.captureWarnings(True)
        self.set_verbosity(self._settings.verbosity)

    def set_verbosity(self, verbosity: int) -> None:
        """Changes `-v` while running."""
        self._handler.verbosity = verbosity
        most = max((verbosity, *(level for _, level in self._settings.modules)))
        logging.getLogger(ROOT).setLevel(threshold(most))

    @property
    def verbosity(self) -> int:
        return self._handler.verbosity

    def flush(self) -> None:
        self._handler.flush()


class _Handler(logging.Handler):
    """Writes lines, at once or when there are enough of them."""

    def __init__(self, settings: LogSettings, errors: TextIO, output: TextIO) -> None:
        super().__init__()
        self.verbosity = settings.verbosity
        self._modules = settings.modules
        self._errors = errors
        self._output = output if settings.split else errors
        self._limit = settings.buffer_size if settings.split else 0
        self._waiting: list[str] = []
        self._size = 0
        self.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO and verbosity_of(record.levelno) > self._verbosity_for(record):
            return False
        return bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = redacted(self.format(record)) + "\n"
            if record.levelno >= logging.ERROR:
                self.flush()
                self._errors.write(line)
                self._errors.flush()
                return
            self._waiting.append(line)
            self._size += len(line)
            if self._size > self._limit:
                self.flush()
        except Exception:  # noqa: BLE001 -- a full disk must not stop the scheduling
            self.handleError(record)

    def flush(self) -> None:
        """Writes what waits. Where nothing can be written (a full disk, a reader that is gone), it is lost:
        neither errors, which go elsewhere, nor what is done after a flush must be lost with it."""
        if self._waiting:
            text, self._waiting, self._size = "".join(self._waiting), [], 0
            with suppress(OSError, ValueError):
                self._output.write(text)
                self._output.flush()

    def _verbosity_for(self, record: logging.LogRecord) -> int:
        name = PurePath(record.filename).stem
        for pattern, verbosity in self._modules:
            if fnmatchcase(name, pattern):
                return verbosity
        return self.verbosity


def _pairs(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """What was given as `extra`."""
    return ((key, value) for key, value in vars(record).items() if key not in _USUAL)


class TextFormatter(logging.Formatter):
    """`I1118 22:28:44.123456    4711 live.py:42] "message" key="value"`."""

    def format(self, record: logging.LogRecord) -> str:
        severity = "F" if record.levelno > logging.ERROR else _SEVERITY.get(record.levelno, "I")
        moment = time.localtime(record.created)
        micros = int(record.created % 1 * 1e6)
        head = f"{severity}{time.strftime('%m%d %H:%M:%S', moment)}.{micros:06d} {record.process or 0:7d}"
        parts = [f"{head} {record.filename}:{record.lineno}] {_quoted(record.getMessage())}"]
        parts += [f"{key}={_shown(value)}" for key, value in _pairs(record)]
        text = " ".join(parts)
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, caller, msg, v (or err), and what was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 4),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            line["v"] = verbosity_of(record.levelno)
        if record.levelno == logging.WARNING:
            line["severity"] = "warning"
        line.update(_pairs(record))
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        # Several lines are easier to read as they are than as one line full of \n.
        return (
            f"<\n\t{value.rstrip().replace(chr(10), chr(10) + chr(9))}\n >"
            if "\n" in value
            else _quoted(value)
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)) or value is None:
        return json.dumps(value)
    if isinstance(value, (list, tuple, Mapping)):
        return json.dumps(value, default=str, ensure_ascii=False)
    return _quoted(str(value))


def parse_modules(text: str) -> tuple[tuple[str, int], ...]:
    """`--vmodule`: `queue=6,live*=4`. A ValueError says what is wrong."""
    modules = []
    for part in filter(None, text.split(",")):
        pattern, equals, level = part.partition("=")
        if not pattern or not equals or not level.isdecimal():
            raise ValueError(f"{part!r} is not of the form pattern=N")
        modules.append((pattern, int(level)))
    return tuple(modules)
