from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from stowplan.ops.logs import (
    JsonFormatter,
    Logs,
    LogSettings,
    TextFormatter,
    parse_modules,
    redacted,
    threshold,
    verbosity_of,
)

log = logging.getLogger("stowplan.test")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("stowplan")
    handlers, level, our_level = list(root.handlers), root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)
    logging.captureWarnings(False)


def start(settings: LogSettings | None = None) -> tuple[Logs, io.StringIO, io.StringIO]:
    errors, output = io.StringIO(), io.StringIO()
    logs = Logs(settings or LogSettings(), errors=errors, output=output)
    logs.start()
    return logs, errors, output


def test_text_lines_look_like_klogs() -> None:
    _, errors, _ = start()
    log.info("bound %s", "it", extra={"pod": "default/web", "seconds": 0.5, "nodes": ["a"], "ok": True})
    line = errors.getvalue()
    head = r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] "
    assert re.fullmatch(head + r'"bound it" pod="default/web" seconds=0\.5 nodes=\["a"\] ok=true\n', line)


def test_severity_is_the_first_letter() -> None:
    _, errors, _ = start()
    log.warning("one")
    log.error("two")
    log.critical("three")
    assert [line[0] for line in errors.getvalue().splitlines()] == ["W", "E", "F"]


def test_json_lines_are_objects() -> None:
    _, errors, _ = start(LogSettings(format="json"))
    log.info("bound", extra={"pod": "default/web"})
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, errors.getvalue().splitlines())
    assert first["msg"] == "bound"
    assert first["pod"] == "default/web"
    assert first["v"] == 0
    assert first["caller"].startswith("test_logs.py:")
    assert first["ts"] > 1e12
    assert "ValueError: broken" in second["err"]
    assert "v" not in second


@pytest.mark.parametrize(("verbosity", "shown"), [(0, 0), (1, 1), (3, 3), (4, 4), (6, 5)])
def test_verbosity_decides_what_is_shown(verbosity: int, shown: int) -> None:
    _, errors, _ = start(LogSettings(verbosity=verbosity))
    for level in (19, 18, 17, logging.DEBUG, 9):
        log.log(level, "more")
    assert len(errors.getvalue().splitlines()) == shown


def test_verbosity_changes_while_running() -> None:
    logs, errors, _ = start()
    log.debug("hidden")
    logs.set_verbosity(4)
    log.debug("shown")
    assert logs.verbosity == 4
    assert "shown" in errors.getvalue()
    assert "hidden" not in errors.getvalue()


def test_levels_and_verbosities_fit_together() -> None:
    for verbosity in range(10):
        assert verbosity_of(threshold(verbosity)) == verbosity


def test_single_modules_can_say_more() -> None:
    _, errors, _ = start(LogSettings(modules=parse_modules("test_l*=4,other=9")))
    log.debug("shown")
    logging.getLogger("stowplan.x").makeRecord("stowplan.x", 10, "elsewhere.py", 1, "", (), None)
    record = log.makeRecord("stowplan.x", logging.DEBUG, "/a/elsewhere.py", 1, "hidden", (), None)
    logging.getLogger().handlers[0].handle(record)
    assert "shown" in errors.getvalue()
    assert "hidden" not in errors.getvalue()


@pytest.mark.parametrize("text", ["queue", "queue=", "=4", "queue=x"])
def test_a_wrong_vmodule_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="pattern=N"):
        parse_modules(text)


def test_split_streams_keep_errors_apart_and_in_order() -> None:
    logs, errors, output = start(LogSettings(split=True, buffer_size=10_000))
    log.info("waits")
    assert output.getvalue() == ""
    log.error("at once")
    assert "waits" in output.getvalue()
    assert "at once" in errors.getvalue()
    assert "at once" not in output.getvalue()
    log.info("waits too")
    logs.flush()
    assert "waits too" in output.getvalue()


def test_a_full_buffer_is_written() -> None:
    _, _, output = start(LogSettings(split=True, buffer_size=100))
    log.info("a" * 20)
    log.info("b" * 80)
    assert "a" * 20 in output.getvalue()


class Full(io.StringIO):
    """A disk with no room left."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_disk_that_is_full_takes_no_errors_with_it() -> None:
    errors = io.StringIO()
    logs = Logs(LogSettings(split=True, buffer_size=1000), errors=errors, output=Full())
    logs.start()
    log.info("bound")
    log.error("on fire")
    assert '"on fire"' in errors.getvalue()
    log.info("bound")
    logs.flush()
    assert errors.getvalue().count("\n") == 1


def test_other_libraries_are_heard_from_warnings_on() -> None:
    _, errors, _ = start(LogSettings(verbosity=9))
    logging.getLogger("asyncio").debug("details")
    logging.getLogger("asyncio").warning("trouble")
    assert "details" not in errors.getvalue()
    assert "trouble" in errors.getvalue()


TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
        ("sent Basic YWRtaW46c2VjcmV0 there", "YWRtaW46c2VjcmV0"),
        (f"the token was {TOKEN}.", "c2lnbmF0dXJl"),
        ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----", "MHcCAQEE"),
        ("-----BEGIN PRIVATE KEY-----\nMHcCAQEE", "MHcCAQEE"),
        ("proxy http://me:hunter2@proxy:3128", "hunter2"),
        ('{"token": "s3cr3t-s3cr3t"}', "s3cr3t-s3cr3t"),
        ("password=hunter2", "hunter2"),
        ("client-key-data: LS0tLS1CRUdJTg==", "LS0tLS1CRUdJTg"),
    ],
)
def test_secrets_do_not_get_out(text: str, secret: str) -> None:
    assert secret not in redacted(text)
    assert "[redacted]" in redacted(text)
    for form in ("text", "json"):
        _, errors, _ = start(LogSettings(format=form))
        log.info("about %s", text, extra={"detail": text})
        assert secret not in errors.getvalue()


@pytest.mark.parametrize(
    "text", ["pod default/token-controller was bound", "https://host:6443/api", "a basic test of things"]
)
def test_harmless_words_stay(text: str) -> None:
    assert redacted(text) == text


def test_several_lines_stay_readable() -> None:
    record = logging.makeLogRecord({"msg": "config", "levelno": 20, "config": "a: 1\nb: 2\n"})
    assert TextFormatter().format(record).endswith('"config" config=<\n\ta: 1\n\tb: 2\n >')


def test_a_line_end_in_a_message_cannot_fake_a_line() -> None:
    record = logging.makeLogRecord({"msg": "a\nE1118 fake", "levelno": 20})
    assert "\n" not in TextFormatter().format(record)
    assert "\n" not in JsonFormatter().format(record)
