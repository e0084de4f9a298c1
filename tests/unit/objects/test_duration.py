"""Durations are read and written as Go does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.duration import Duration


@pytest.mark.parametrize(
    ("text", "nanoseconds", "written"),
    [
        ("0", 0, "0s"),
        ("15s", 15 * 10**9, "15s"),
        ("+5s", 5 * 10**9, "5s"),
        ("1m30s", 90 * 10**9, "1m30s"),
        ("5m", 300 * 10**9, "5m0s"),
        ("1.5h", 5400 * 10**9, "1h30m0s"),
        ("30s1m", 90 * 10**9, "1m30s"),
        (".5s", 5 * 10**8, "500ms"),
        ("5.s", 5 * 10**9, "5s"),
        ("-1.5ms", -1_500_000, "-1.5ms"),
        ("100us", 100_000, "100µs"),
        ("100µs", 100_000, "100µs"),
        ("9007199254.740993ms", 9007199254740993, "2501h59m59.254740993s"),
        ("7ns", 7, "7ns"),
        ("0.3333333333333333333h", 1200 * 10**9, "20m0s"),
        ("9223372036854775807ns", 2**63 - 1, "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", -(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_reads_and_writes_as_go_does(text: str, nanoseconds: int, written: str) -> None:
    duration = Duration.parse(text)
    assert int(duration) == nanoseconds
    assert str(duration) == written


@pytest.mark.parametrize(
    "text", ["", "-", "+", "s", ".s", "1", "1.5", "15 s", "1d", "1s2", "--1s", "9223372036854775808ns"]
)
def test_refuses_what_go_refuses_and_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration"):
        Duration.parse(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_what_is_written_reads_back_as_the_same(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))) == nanoseconds


def test_seconds_are_for_timeouts() -> None:
    assert Duration.parse("1m30.5s").seconds == 90.5
    assert Duration.of_seconds(0.25) == Duration.parse("250ms")
