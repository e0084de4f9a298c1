from __future__ import annotations

import pytest

from stowplan.cli.tables import render_table

HEADER = ("POD", "WHY")


def test_columns_line_up_and_lines_end_without_spaces() -> None:
    assert render_table(HEADER, [("a", "fits"), ("longer", "")], width=80).splitlines() == [
        "POD     WHY",
        "a       fits",
        "longer",
    ]


def test_only_the_last_column_wraps() -> None:
    lines = render_table(HEADER, [("default/web", "word " * 30)], width=80).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert lines[1].startswith("default/web  word")
    assert [line[:13] for line in lines[2:]] == [" " * 13] * (len(lines) - 2)
    assert sum(line.count("word") for line in lines) == 30


def test_a_table_without_rows_is_its_header() -> None:
    assert render_table(HEADER, [], width=80) == "POD  WHY"


def test_without_a_terminal_it_is_120_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = render_table(HEADER, [("a", "word " * 60)]).splitlines()
    assert 110 < max(len(line) for line in lines) <= 120


def test_titles_are_broken_between_their_words_when_the_table_is_too_wide() -> None:
    header = ("NODE", "NodeResourcesFit", "PDB VIOLATIONS", "NodeResourcesBalancedAllocation")
    rows = [("alpha-1", "87", "0", "68")]
    assert render_table(header, rows, width=100).splitlines()[0].endswith("  NodeResourcesBalancedAllocation")
    assert render_table(header, rows, width=60).splitlines() == [
        "                                Node",
        "         Node                   Resources",
        "         Resources  PDB         Balanced",
        "NODE     Fit        VIOLATIONS  Allocation",
        "alpha-1  87         0           68",
    ]


def test_names_are_not_broken_at_their_hyphens() -> None:
    lines = render_table(HEADER, [("web", ", ".join(f"work/batch-{n}" for n in range(20)))], width=80)
    assert not any(line.endswith("-") for line in lines.splitlines())


def test_titles_stay_whole_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    header = ["NODE", *(f"NodeResources{number}Allocation" for number in range(8))]
    assert render_table(header, [["n"] * 9]).splitlines()[0].split() == header
    monkeypatch.setenv("COLUMNS", "100")
    assert len(render_table(header, [["n"] * 9]).splitlines()) > 2
