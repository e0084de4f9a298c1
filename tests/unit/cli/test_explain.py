"""`stowplan explain`, on the demo's cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stowplan.cli
from stowplan.cli.main import main

CLUSTER = str(Path(stowplan.cli.__file__).with_name("demo_cluster.yaml"))


def explain(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", "-f", CLUSTER, *words]) == 0
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 1
    return capsys.readouterr().err


def test_a_pod_that_fits_is_told_where_it_goes_and_what_each_node_scored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = explain(capsys, "search").splitlines()
    assert lines[0] == "Pod default/search: goes to beta-ssd"
    assert any(line.startswith("alpha-1  ") and "NodeAffinity" in line for line in lines)
    scored = explain(capsys, "default/plain").splitlines()
    assert "NodeResourcesBalancedAllocation" in scored[2]
    assert [line.split()[0] for line in scored[3:7]] == ["beta-1", "beta-ssd", "alpha-2", "alpha-1"]


def test_a_pod_that_fits_nowhere_is_told_who_rejected_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown = explain(capsys, "giant")
    assert shown.startswith("Pod default/giant: 0/6 nodes are available: ")
    assert "alpha-1        NodeResourcesFit" in shown


def test_it_says_where_preemption_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    preemption = json.loads(explain(capsys, "urgent", "-o", "json"))["preemption"]
    assert preemption["candidates"]["alpha-2"]["pods"] == ["default/batch-2"]
    assert preemption["chosen"] == ["alpha-2"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-f", CLUSTER, "nobody"), "there is no pod default/nobody; pods without a node: "),
        (("-f", CLUSTER, "database"), "pod default/database is on alpha-1 already"),
        (("-f", "no-such-file.yaml", "web-1"), "no-such-file.yaml: No such file or directory"),
    ],
)
def test_what_the_user_can_put_right_is_said(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    assert fails(capsys, *words).startswith(f"stowplan: {complaint}")
