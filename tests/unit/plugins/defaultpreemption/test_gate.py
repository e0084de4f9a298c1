"""Who is let in when victims go, and who is looked at for that."""

from __future__ import annotations

import msgspec
import pytest

from stowplan.cluster import Cluster
from stowplan.objects import Pod
from stowplan.plugins.defaultpreemption.gate import Gate
from stowplan.testing.builders import make_node, make_pod

NODES = ("n0", "n1")
FIRST, SECOND = (make_pod(f"preemptor-{node}").priority(10).build() for node in NODES)


def victim(node: str, number: int) -> Pod:
    return make_pod(f"victim-{node}-{number}").on_node(node).build()


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for node in NODES:
        cluster.add(make_node(node).capacity(cpu=4, pods=10).build())
        for number in range(2):
            cluster.add(victim(node, number))
    return cluster


@pytest.fixture
def gate(cluster: Cluster) -> Gate:
    gate = Gate(cluster)
    for preemptor, node in ((FIRST, "n0"), (SECOND, "n1")):
        gate.close(preemptor, (victim(node, 0), victim(node, 1)))
    assert not gate.opened()
    return gate


def test_a_preemptor_is_let_in_when_its_last_victim_is_seen_to_be_gone(cluster: Cluster, gate: Gate) -> None:
    cluster.remove(victim("n0", 0))
    assert not gate.opened()
    cluster.add(msgspec.structs.replace(victim("n0", 1), deleted=1.0))
    assert not gate.opened(), "on its way out, and still there"
    cluster.remove(victim("n0", 1))
    assert gate.opened() == [FIRST.key]
    assert not gate.keeps_out(FIRST) and gate.keeps_out(SECOND)


def test_what_happens_on_other_nodes_has_nobody_looked_at(
    cluster: Cluster, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def keeps_out(pod: Pod) -> bool:
        looked_at.append(pod.name)
        return True

    monkeypatch.setattr(gate, "keeps_out", keeps_out)
    cluster.add(make_pod("new").on_node("n1").build())
    assert not gate.opened()
    assert looked_at == [SECOND.name]
    assert not gate.opened()
    assert looked_at == [SECOND.name]


def test_victims_that_go_with_their_node_or_after_it_are_noticed(cluster: Cluster, gate: Gate) -> None:
    cluster.remove_node("n0")
    assert not gate.opened(), "pods of a node that is gone are still there"
    for number in range(2):
        cluster.remove(victim("n0", number))
    assert gate.opened() == [FIRST.key]


def test_a_node_that_takes_the_place_of_another_is_not_mistaken_for_it(cluster: Cluster, gate: Gate) -> None:
    for number in range(2):
        cluster.remove(victim("n1", number))
    cluster.remove_node("n0")
    assert gate.opened() == [SECOND.key]


def test_a_preemption_that_is_over_lets_its_preemptor_in(gate: Gate) -> None:
    assert gate.keeps_out(FIRST)
    gate.open(FIRST)
    assert gate.opened() == [FIRST.key]
    assert not gate.keeps_out(FIRST)
    gate.open(FIRST)
    assert not gate.opened(), "it was told already"


def test_of_preemptors_that_were_never_kept_out_nothing_is_kept(cluster: Cluster) -> None:
    gate = Gate(cluster)
    for _ in range(3):
        gate.close(FIRST, (victim("n0", 0),))
        gate.open(FIRST)
    assert not gate._opened and not gate._kept_out


def test_other_victims_close_it_again(cluster: Cluster, gate: Gate) -> None:
    cluster.add(make_pod("other").on_node("n1").build())
    gate.close(FIRST, (make_pod("other").on_node("n1").build(),))
    cluster.remove(victim("n0", 0))
    cluster.remove(victim("n0", 1))
    assert gate.keeps_out(FIRST)
    gate.open(FIRST)
    gate.open(SECOND)
    assert not gate.keeps_out(FIRST)
    left = (gate._by_node, gate._victims, gate._kept_out)
    assert not any(left), "nothing is kept of those that are over"
