"""The table of differences: complete rows, and tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINES = (ROOT / "docs" / "differences.md").read_text().splitlines()
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in LINES if line.startswith("|")
][2:]


def test_there_are_differences() -> None:
    assert ROWS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_difference_has_a_reason_and_a_test(row: list[str]) -> None:
    what, why, tests = row
    assert what and why
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
    assert named, f"{tests!r} names no test as `tests/...py::test_name`"
    for file, name in named:
        functions = ast.walk(ast.parse((ROOT / file).read_text()))
        assert any(isinstance(one, ast.FunctionDef) and one.name == name for one in functions), (file, name)
