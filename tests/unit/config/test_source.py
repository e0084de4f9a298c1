"""Files are read as YAML or JSON, with lines, and nothing strange gets past."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.config.problems import ConfigError
from stowplan.config.source import Source

TEXT = b"""\
apiVersion: v1
profiles:
- schedulerName: a
- schedulerName: b
  plugins:
    score:
      enabled: [{name: X},
        {name: Y, weight: 3}]
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 1),
        ("apiVersion", 1),
        ("profiles", 2),
        ("profiles[0]", 3),
        ("profiles[1].schedulerName", 4),
        ("profiles[1].plugins.score.enabled[1].weight", 8),
        ("profiles[1].plugins.filter.enabled[0]", 5),
        ("profiles[7].plugins", 2),
        ("nowhere", 1),
    ],
)
def test_a_path_is_found_or_else_the_nearest_field_around_it(path: str, line: int) -> None:
    assert Source(TEXT, "f").line(path) == line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("0x10", 16),
        ("010", 8),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        ("true", True),
        ("on", True),
        ("~", None),
        ("'1e3'", "1e3"),
        ("'12'", "12"),
        ("10:30", "10:30"),
        ("2026-01-01", "2026-01-01"),
        ("15s", "15s"),
        ('"\\u00e9"', "é"),
    ],
)
def test_scalars_mean_what_they_mean_to_the_scheduler(text: str, value: Any) -> None:
    data = Source(f"a: {text}".encode(), "f").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


def test_json_is_read_with_tabs_and_lines() -> None:
    source = Source(b'{\n\t"a": 1,\n\t"b": [{"c": null}]\n}', "f")
    assert source.data == {"a": 1, "b": [{"c": None}]}
    assert source.line("b[0].c") == 3


def test_merge_keys_bring_in_what_is_not_there() -> None:
    source = Source(b"x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}", "f")
    assert source.data["y"] == {"a": 1, "b": 3}
    assert source.problems == []


def test_a_key_that_stands_twice_is_a_problem_with_both_lines() -> None:
    source = Source(b"a:\n  b: 1\n  c: 2\n  b: 3\n", "f")
    assert source.problems == [("a.b", "stands here twice, in lines 2 and 4")]


@pytest.mark.parametrize(
    "text", ["!!python/object:os.system x", "!foo bar", ".nan", ".inf", "1e400", "!!int x"]
)
def test_values_that_are_not_plain_are_problems(text: str) -> None:
    (problem,) = Source(f"a: {text}".encode(), "f").problems
    assert problem.path == "a"


def test_text_that_is_not_yaml_is_an_error_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml:3: not readable as YAML or JSON"):
        Source(b"a: 1\nb: [\n", "f.yaml")


def test_two_documents_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^f:3: a second document begins here"):
        Source(b"a: 1\n---\nb: 1\n", "f")


@pytest.mark.parametrize("text", ["---\na: 1\n", "a: 1\n---\n", "a: 1\n---\n---\n# nothing\n", "a: 1\n...\n"])
def test_empty_documents_do_no_harm(text: str) -> None:
    assert Source(text.encode(), "f").data == {"a": 1}


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(ConfigError, match="too large"):
        Source("\n".join(lines).encode(), "f")


def test_an_alias_to_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="too deeply"):
        Source(b"a: &a [*a]", "f")


@given(st.binary(max_size=200) | st.text(alphabet="{}[]:,-&*!|>'\"# \n\tab01~<", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused_with_a_reason(text: bytes) -> None:
    with suppress(ConfigError):
        Source(text, "f")
