from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stowplan.cluster import Cluster
from stowplan.objects import Node, ResourceClaim
from stowplan.plugins.dynamicresources import memory
from stowplan.plugins.dynamicresources.cycle import allocated
from stowplan.plugins.dynamicresources.ledger import Ledger
from stowplan.plugins.dynamicresources.memory import BROKEN, FOUND, NOT_FOUND, Question, Questions
from stowplan.plugins.dynamicresources.results import build_results
from stowplan.plugins.dynamicresources.search import Search
from stowplan.testing.builders import make_node
from tests.unit.plugins.dynamicresources.world import (
    DRIVER,
    allocation,
    device,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_cluster,
    make_slice,
    request,
)


def no_tick(node: Node) -> Callable[[], None]:
    return lambda: None


def make_question(cluster: Cluster, ledger: Ledger, *claims: ResourceClaim) -> Question:
    ledger.refresh()
    question = Questions(cluster, ledger).ask(claims)
    question.refresh(cluster.nodes, no_tick)
    return question


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Search]:
    """Every search that is made."""
    made: list[Search] = []

    class Watched(Search):
        def run(self):  # type: ignore[no-untyped-def]
            made.append(self)
            return super().run()

    monkeypatch.setattr(memory, "Search", Watched)
    return made


def world(count: int = 3) -> Cluster:
    """Nodes with two devices each."""
    names = [f"n{i}" for i in range(count)]
    slices = [make_slice(f"s-{name}", [device("a"), device("b")], pool=name, nodeName=name) for name in names]
    return make_cluster(*slices, make_class(), nodes=names)


def test_only_nodes_whose_devices_came_or_went_are_searched_again(searches: list[Search]) -> None:
    cluster = world()
    ledger = Ledger(cluster)
    question = make_question(cluster, ledger, make_claim())
    assert len(searches) == 3
    question.refresh(cluster.nodes, no_tick)
    assert len(searches) == 3

    used = make_claim("used", allocation=allocation("a", pool="n1"))
    cluster.add(used)
    ledger.refresh()
    question.refresh(cluster.nodes, no_tick)
    assert [one.site for one in searches[3:]] == [ledger.sites.known("n1")]

    cluster.add(make_slice("s-n2", [device("c")], pool="n2", nodeName="n2"))
    ledger.refresh()
    question.refresh(cluster.nodes, no_tick)
    assert [one.site for one in searches[4:]] == [ledger.sites.known("n2")]


def test_only_the_asked_nodes_are_searched(searches: list[Search]) -> None:
    cluster = world()
    ledger = Ledger(cluster)
    ledger.refresh()
    question = Questions(cluster, ledger).ask([make_claim()])
    one = cluster.nodes.where(cluster.nodes.row_numbers == 1)
    question.refresh(one, no_tick)
    assert len(searches) == 1
    assert question.codes(one).tolist() == [FOUND]


def test_claims_that_ask_for_the_same_share_a_question() -> None:
    cluster = world()
    questions = Questions(cluster, Ledger(cluster))
    first = questions.ask([make_claim("one")])
    assert questions.ask([make_claim("two")]) is first
    assert questions.ask([make_claim("two", request("r", 2))]) is not first
    cluster.add(make_class("another"))
    assert questions.ask([make_claim("one")]) is not first


def test_questions_asked_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST_ANSWERS", 0)
    cluster = world()
    questions = Questions(cluster, Ledger(cluster))
    first = questions.ask([make_claim("one")])
    for count in range(2, 10):
        questions.ask([make_claim("many", request("r", count))])
    assert questions.ask([make_claim("one")]) is not first


def test_what_was_found_is_told_of_the_claims_that_ask() -> None:
    cluster = world()
    ledger = Ledger(cluster)
    question = make_question(cluster, ledger, make_claim("one"))
    found = question.solution([make_claim("two")], "n1")
    assert found is not None
    assert found.plans[0].claim.name == "two"
    assert [entry.id for entry in found.devices[0]] == [(DRIVER, "n1", "a")]


def test_a_broken_claim_is_named_whoever_asked_first() -> None:
    cluster = world()
    ledger = Ledger(cluster)
    bad = request("r", 1, "device.driver")
    question = make_question(cluster, ledger, make_claim("one", bad))
    assert question.codes(cluster.nodes).tolist() == [BROKEN] * 3
    problem = question.failure([make_claim("two", bad)], cluster.nodes.objects[0])
    assert str(problem).startswith(
        "claim default/two: selector #0: CEL runtime error: CEL result of type str"
    )


def test_scores_prefer_early_alternatives() -> None:
    cluster = world(2)
    cluster.add(make_claim("used", allocation=allocation("a", pool="n1")))
    ledger = Ledger(cluster)
    wish = first_of("r", two=exactly(2), one=exactly(1))
    question = make_question(cluster, ledger, make_claim("c", wish))
    assert question.scores(cluster.nodes).tolist() == [8, 7]


def test_remembered_answers_equal_fresh_ones_after_any_changes() -> None:
    rng = random.Random(11)
    cluster = world(4)
    ledger = Ledger(cluster)
    ledger.refresh()
    questions = Questions(cluster, ledger)
    wishes = [
        [make_claim("one")],
        [make_claim("two", request("r", 2))],
        [make_claim("x", first_of("r", two=exactly(2), one=exactly(1))), make_claim("y")],
        [make_claim("bad", request("r", 1, 'device.attributes["nope"].x'))],
    ]
    for step in range(300):
        _change(cluster, ledger, rng)
        ledger.refresh()
        claims = rng.choice(wishes)
        question = questions.ask(claims)
        rows = cluster.nodes.where(cluster.nodes.row_numbers >= rng.randrange(2))
        question.refresh(rows, no_tick)
        fresh = Question(cluster, ledger, claims)
        fresh.refresh(rows, no_tick)
        assert question.codes(rows).tolist() == fresh.codes(rows).tolist(), step
        assert question.scores(rows).tolist() == fresh.scores(rows).tolist(), step
        for name in rows.names:
            one, other = question.solution(claims, name), fresh.solution(claims, name)
            assert (one and build_results(one, name)) == (other and build_results(other, name)), step


def _change(cluster: Cluster, ledger: Ledger, rng: random.Random) -> None:
    name = f"n{rng.randrange(5)}"
    kind = rng.randrange(5)
    if kind == 0:
        devices = [device(one) for one in "abc"[: rng.randrange(4)]]
        cluster.add(make_slice(f"s-{name}", devices, pool=name, nodeName=name))
    elif kind == 1:
        cluster.remove_node(name) if rng.random() < 0.5 else cluster.add(make_node(name).build())
    elif kind == 2:
        cluster.remove(make_claim(f"used-{rng.randrange(4)}"))
    else:
        used = make_claim(f"used-{rng.randrange(4)}", allocation=allocation(rng.choice("abc"), pool=name))
        cluster.add(used)
        flying = make_claim(f"flying-{rng.randrange(3)}")
        if used.status.allocation is not None and not ledger.settle(flying):
            ledger.signal(allocated(flying, used.status.allocation))


def test_an_interrupted_search_is_made_up_for() -> None:
    cluster = world()
    ledger = Ledger(cluster)
    ledger.refresh()
    question = Questions(cluster, ledger).ask([make_claim("c", request("r", 9))])

    def give_up(node: Node) -> Callable[[], None]:
        def tick() -> None:
            if node.name == "n1":
                raise TimeoutError

        return tick

    with pytest.raises(TimeoutError):
        question.refresh(cluster.nodes, give_up)
    question.refresh(cluster.nodes, no_tick)
    assert question.codes(cluster.nodes).tolist() == [NOT_FOUND] * 3
