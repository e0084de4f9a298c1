from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.plugins.dynamicresources.semver import SemverError, parse_lenient, parse_semver

ORDERED = [
    "0.9.10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "2.0.0",
]


def test_versions_are_ordered_as_the_standard_orders_them() -> None:
    for i, one in enumerate(ORDERED):
        for j, other in enumerate(ORDERED):
            assert parse_semver(one).compare(parse_semver(other)) == (i > j) - (i < j), (one, other)


def test_build_metadata_makes_no_difference() -> None:
    assert parse_semver("1.0.0+a") == parse_semver("1.0.0+b.1")
    assert parse_semver("1.0.0-x+a").text == "1.0.0-x"


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3 ", f"1.2.{2**64}"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SemverError):
        parse_semver(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v1.2", "1.2.0"),
        ("1", "1.0.0"),
        ("01.002.0003", "1.2.3"),
        ("v0.0", "0.0.0"),
        ("1.2.03-rc.1", "1.2.3-rc.1"),
    ],
)
def test_lenient_reading_fills_up_and_cleans(text: str, wanted: str) -> None:
    assert parse_lenient(text).text == wanted


def test_a_short_version_cannot_have_a_pre_release() -> None:
    with pytest.raises(SemverError):
        parse_lenient("1.2-rc.1")


@settings(max_examples=200)
@given(*[st.integers(0, 2**64 - 1)] * 3)
def test_text_and_version_are_the_same(major: int, minor: int, patch: int) -> None:
    text = f"{major}.{minor}.{patch}"
    assert parse_semver(text).text == text
    assert parse_semver(parse_lenient(f"v{text}").text) == parse_semver(text)
