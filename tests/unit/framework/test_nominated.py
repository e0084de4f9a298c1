"""Nodes promised to others: where only room matters, judging all at once says what trying each one says."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.framework.cycle import run_with_nominated
from stowplan.framework.decision import Decision
from stowplan.objects import Pod
from stowplan.testing.builders import PodBuilder, make_node, make_pod


def promised_to_others(nodes: int, cpu: int) -> Cluster:
    cluster = Cluster()
    for i in range(nodes):
        cluster.add(make_node(f"n{i}").capacity(cpu=4, memory="8Gi", pods=10).labels(half=str(i % 2)).build())
        cluster.nominations.add(make_pod(f"nominated{i}").requests(cpu=cpu).priority(10).build(), f"n{i}")
    return cluster


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that were tried one by one."""
    names: list[str] = []

    def noting(profile: Any, state: Any, pod: Pod, node: Any) -> Any:
        names.append(node.name)
        return run_with_nominated(profile, state, pod, node)

    monkeypatch.setattr("stowplan.framework.nominated.run_with_nominated", noting)
    return names


ORDINARY = [
    make_pod("p").requests(cpu=2),
    make_pod("p").requests(cpu=2, memory="9Gi"),
    make_pod("p").requests(cpu=2).node_selector(half="1"),
    make_pod("p").requests(cpu=2, memory="9Gi").node_selector(half="1"),
    make_pod("p").requests(cpu=2).priority(11),
]


@pytest.mark.parametrize("pod", ORDINARY)
@pytest.mark.parametrize("cpu", [1, 3])
def test_all_at_once_says_what_each_alone_says(pod: PodBuilder, cpu: int, tried: list[str]) -> None:
    cluster = promised_to_others(6, cpu)
    core = Scheduler(cluster)
    usage = cluster.table.all_usage.copy()

    def said(decision: Decision) -> tuple[Any, ...]:
        rejections = decision.rejections
        names = [node.name for node in cluster.table.nodes]
        statuses = None if rejections is None else [rejections.status_of(name) for name in names]
        return decision.node_name, decision.feasible, decision.message, statuses

    decision = said(core.decide(pod.build()))
    assert tried == [], "no node is tried alone for an ordinary pod"
    assert (cluster.table.all_usage == usage).all()
    with cluster.trial():
        assert said(core.decide(pod.build())) == decision
    if not pod.build().spec.priority:
        assert len(tried) == 6


def test_where_more_than_room_matters_each_node_is_tried(tried: list[str]) -> None:
    core = Scheduler(promised_to_others(3, 1))
    assert core.decide(make_pod("p").host_port(80).build()).node_name
    assert sorted(tried) == ["n0", "n1", "n2"]


def test_whoever_was_promised_a_node_first_the_reasons_stay_with_their_nodes() -> None:
    cluster = Cluster()
    for i, cpu in enumerate((1, 4)):
        cluster.add(make_node(f"n{i}").capacity(cpu=cpu, memory="8Gi", pods=10).build())
    for i, cpu in ((1, 4), (0, 1)):
        cluster.nominations.add(make_pod(f"nominated{i}").requests(cpu=cpu).priority(10).build(), f"n{i}")
    scheduler, pod = Scheduler(cluster), make_pod("p").requests(cpu=1, memory="1Gi").host_port(80).build()
    cluster.nominations.add(make_pod("large").requests(memory="8Gi").priority(10).build(), "n0")
    rejections = scheduler.decide(pod).rejections
    assert rejections is not None
    said = {name: status.reasons for name in ("n0", "n1") if (status := rejections.status_of(name))}
    assert said == {"n0": ("Insufficient cpu", "Insufficient memory"), "n1": ("Insufficient cpu",)}
