"""The demo decides for real: what it shows is what the cluster's rules demand, not a canned answer."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from stowplan.cli.demo import Outcome, as_text, decide_all
from stowplan.cli.main import main

MANIFESTS = files("stowplan.cli").joinpath("demo_cluster.yaml").read_bytes()
CPU_SHORT = "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 4 Insufficient cpu."


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {outcome.pod.removeprefix("default/"): outcome for outcome in decide_all(MANIFESTS)}


def test_every_waiting_pod_has_an_outcome_and_a_reason(outcomes: dict[str, Outcome]) -> None:
    assert len(outcomes) == 12
    assert all(outcome.reason and outcome.asks and outcome.nodes == 6 for outcome in outcomes.values())
    assert {name for name, outcome in outcomes.items() if outcome.node is None} == {"giant", "gated"}


def test_spread_pods_are_even_over_zones(outcomes: dict[str, Outcome]) -> None:
    zones = [str(outcomes[f"web-{number}"].node).partition("-")[0] for number in (1, 2, 3)]
    assert sorted(zones.count(zone) for zone in ("alpha", "beta")) == [1, 2]


def test_pods_that_ask_for_a_place_get_it(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["cache"].node == "alpha-1"
    assert outcomes["training"].node == "alpha-gpu"
    assert outcomes["search"].node == "beta-ssd"
    assert outcomes["search"].reason == "the only node that fits"
    assert outcomes["quorum-1"].node != outcomes["quorum-2"].node


def test_the_urgent_pod_makes_a_lesser_one_give_way(outcomes: dict[str, Outcome]) -> None:
    urgent = outcomes["urgent"]
    assert (urgent.node, urgent.evicts) == ("alpha-2", ("default/batch-2",))
    assert urgent.reason.startswith("batch-2 had to go; then ")


def test_what_fits_nowhere_is_told_why(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["giant"].feasible == 0
    assert outcomes["giant"].reason.startswith(f"0/6 nodes are available: {CPU_SHORT} ")
    assert outcomes["giant"].reason.endswith("6 Preemption is not helpful for scheduling.")
    assert outcomes["gated"].reason == "waiting for scheduling gates: [example.com/quota]"


def test_other_manifests_give_other_answers() -> None:
    changed = MANIFESTS.replace(b'requests: {cpu: "64"', b'requests: {cpu: "1"')
    assert changed != MANIFESTS
    (giant,) = [outcome for outcome in decide_all(changed) if outcome.pod == "default/giant"]
    assert giant.node is not None


def test_as_json(capsys: pytest.CaptureFixture[str], outcomes: dict[str, Outcome]) -> None:
    assert main(["demo", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["outcomes"]
    assert [each["pod"] for each in shown] == [outcome.pod for outcome in outcomes.values()]
    assert shown[0]["evicts"] == ["default/batch-2"]


def test_as_text_sums_up() -> None:
    text = as_text(
        [
            Outcome("default/a", "something", "n1", 2, 3, ("default/x",), "best"),
            Outcome("default/b", "more", None, 0, 3, (), "no room"),
        ]
    )
    assert "default/b  more       -     no room" in text
    assert text.endswith("2 pods waited: 1 placed, 1 not, 1 evicted.")
