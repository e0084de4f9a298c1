"""The cluster says the same after any sequence of changes as one built from scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.objects import Namespace, Node, Pod
from stowplan.testing.builders import PodBuilder, make_node, make_object, make_pod
from tests.unit.cluster.picture import columns_of, exact_places, fresh_copy, picture

Change = Callable[[Cluster], None]

node_names = st.sampled_from([f"n{i}" for i in range(6)])
uids = st.sampled_from([f"p{i}" for i in range(8)])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    builder = make_node(draw(node_names)).capacity(cpu=draw(st.integers(0, 8)), memory="4Gi", pods=10)
    if draw(st.booleans()):
        builder.capacity({"example.com/gpu": draw(st.integers(1, 4))})
    for key in ("zone", "disk", "topology.kubernetes.io/zone"):
        value = draw(st.sampled_from(["", "a", "b", "c"]))
        if value:
            builder.labels({key: value})
    if draw(st.booleans()):
        builder.taint(draw(st.sampled_from(["gpu", "old"])))
    if draw(st.booleans()):
        builder.image(draw(st.sampled_from(["x:1", "y:1"])), size=1)
    if draw(st.booleans()):
        builder.unschedulable()
    return builder.build()


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    uid = draw(uids)
    builder = make_pod(uid).uid(uid).requests(cpu=draw(st.sampled_from(["0", "100m", "1"])))
    if draw(st.booleans()):
        builder.requests({"example.com/gpu": 1})
    if draw(st.integers(0, 3)) == 0:
        resize(builder, draw(st.sampled_from(["1", "3"])), draw(st.sampled_from(["Deferred", "Infeasible"])))
    if draw(st.booleans()):
        builder.labels(app=draw(st.sampled_from(["a", "b"])))
    if draw(st.integers(0, 3)) == 0:
        builder.pod_anti_affinity("zone", app=draw(st.sampled_from(["a", "b"])))
    if draw(st.integers(0, 3)) == 0:
        builder.host_port(draw(st.sampled_from([80, 81])))
    if draw(st.integers(0, 3)) == 0:
        builder.terminating()
    if draw(st.integers(0, 3)):
        builder.on_node(draw(node_names))
    return builder.build()


def resize(builder: PodBuilder, cpu: str, reason: str) -> PodBuilder:
    """A pod that has so much, as a whole, and was asked to have something else."""
    return builder.spec(resources={"requests": {"cpu": "2"}}).status(
        resources={"requests": {"cpu": cpu}},
        conditions=[{"type": "PodResizePending", "status": "True", "reason": reason}],
    )


def assume(pod: Pod, name: str) -> Change:
    def change(cluster: Cluster) -> None:
        if pod.uid not in cluster.pods:
            cluster.assume(pod, name)

    return change


def forget(uid: str) -> Change:
    return lambda cluster: cluster.forget(uid) if uid in cluster.assumed else None


def nested_trial(inner: list[Change]) -> Change:
    def change(cluster: Cluster) -> None:
        with cluster.trial():
            for one in inner:
                one(cluster)

    return change


simple_changes: st.SearchStrategy[Change] = st.one_of(
    nodes().map(lambda node: lambda cluster: cluster.add(node)),
    pods().map(lambda pod: lambda cluster: cluster.add(pod)),
    node_names.map(lambda name: lambda cluster: cluster.remove_node(name)),
    uids.map(lambda uid: lambda cluster: cluster.remove_pod(uid)),
    uids.map(forget),
    st.builds(assume, pods(), node_names),
    st.sampled_from(["a", "b"]).map(
        lambda value: lambda cluster: cluster.add(make_object(Namespace, "default", labels={"team": value}))
    ),
)
changes = st.lists(
    st.one_of(simple_changes, st.lists(simple_changes, max_size=4).map(nested_trial)), max_size=25
)


def apply(cluster: Cluster, steps: list[Change]) -> None:
    for step in steps:
        step(cluster)


@settings(max_examples=150)
@given(changes)
def test_after_any_changes_everything_derived_equals_a_cluster_built_from_scratch(
    steps: list[Change],
) -> None:
    cluster = Cluster()
    picture(cluster)  # makes the counters and label columns, so that they are kept up and not made late
    apply(cluster, steps)
    assert picture(cluster) == picture(fresh_copy(cluster))


@settings(max_examples=150)
@given(changes, changes)
def test_a_trial_leaves_no_trace(before: list[Change], tried: list[Change]) -> None:
    cluster = Cluster()
    picture(cluster)
    apply(cluster, before)
    expected = picture(cluster), exact_places(cluster), columns_of(cluster)
    with cluster.trial():
        apply(cluster, tried)
    assert (picture(cluster), exact_places(cluster), columns_of(cluster)) == expected


def test_a_trial_is_undone_when_it_fails() -> None:
    cluster = Cluster()
    cluster.add(make_node("n1").capacity(cpu=4).build())

    def fail() -> None:
        with cluster.trial():
            cluster.assume(make_pod("p").requests(cpu=1).build(), "n1")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert not cluster.pods
    assert cluster.nodes.requested("cpu").tolist() == [0]
    assert not cluster.in_trial


def changed_rows(cluster: Cluster, act: Callable[[], Any]) -> list[int] | None:
    position = cluster.table.usage_log.position
    act()
    return cluster.table.usage_log.since(position)


def test_placing_a_pod_logs_its_row_only() -> None:
    cluster = Cluster()
    for i in range(5):
        cluster.add(make_node(f"n{i}").build())
    assert changed_rows(cluster, lambda: cluster.assume(make_pod("p").build(), "n3")) == [3]


def test_a_heartbeat_of_a_node_is_no_change_but_a_new_label_is() -> None:
    cluster = Cluster()
    builder = make_node("n1").capacity(cpu=4).labels(zone="a")
    cluster.add(builder.build())
    position = cluster.table.node_log.position
    builder.status(conditions=[{"type": "Ready", "status": "True"}])
    cluster.add(builder.build())
    assert cluster.table.node_log.since(position) == []
    assert cluster.table.nodes[0].status.conditions[0].type == "Ready"
    cluster.add(builder.labels(zone="b").build())
    assert cluster.table.node_log.since(position) == [0]


def test_an_assumed_pod_is_confirmed_by_the_placed_one_without_counting_twice() -> None:
    cluster = Cluster()
    cluster.add(make_node("n1").capacity(cpu=4).build())
    cluster.assume(make_pod("p").requests(cpu=1).build(), "n1")
    cluster.add(make_pod("p").requests(cpu=1).on_node("n1").build())
    assert cluster.nodes.requested("cpu").tolist() == [1000]
    assert not cluster.assumed


def test_an_assumed_pod_that_turns_up_elsewhere_is_moved() -> None:
    cluster = Cluster()
    cluster.add(make_node("n1").build())
    cluster.add(make_node("n2").build())
    cluster.assume(make_pod("p").requests(cpu=1).build(), "n1")
    cluster.add(make_pod("p").requests(cpu=1).on_node("n2").build())
    assert cluster.nodes.requested("cpu").tolist() == [0, 1000]


def test_assuming_a_pod_twice_is_an_error_that_names_it() -> None:
    cluster = Cluster()
    cluster.add(make_node("n1").build())
    pod = make_pod("p").build()
    cluster.assume(pod, "n1")
    with pytest.raises(ValueError, match=r"default/p .*already on n1"):
        cluster.assume(pod, "n1")


def test_forgetting_a_confirmed_pod_is_an_error() -> None:
    cluster = Cluster()
    cluster.add(make_pod("p").on_node("n1").build())
    with pytest.raises(ValueError, match="confirmed"):
        cluster.forget("default/p")


def test_pods_of_an_unknown_node_count_once_it_comes() -> None:
    cluster = Cluster()
    cluster.add(make_pod("p").requests(cpu=1).on_node("late").build())
    assert len(cluster.nodes) == 0
    cluster.add(make_node("late").build())
    assert cluster.nodes.requested("cpu").tolist() == [1000]


def test_a_resize_that_proves_infeasible_is_no_longer_counted() -> None:
    cluster = Cluster()
    cluster.add(make_node("n1").capacity(cpu=4).build())
    used = []
    for cpu, reason in (("1", "Deferred"), ("1", "Infeasible"), ("3", "Infeasible")):
        cluster.add(resize(make_pod("p"), cpu, reason).on_node("n1").build())
        used += cluster.nodes.requested("cpu").tolist()
    cluster.remove_pod("default/p")
    assert used == [2000, 1000, 3000]
    assert cluster.nodes.requested("cpu").tolist() == [0]


def test_the_table_grows_past_its_first_capacity() -> None:
    cluster = Cluster()
    for i in range(200):
        cluster.add(make_node(f"n{i}").capacity(cpu=i).labels(zone=f"z{i % 3}").build())
        cluster.add(make_pod(f"p{i}").requests(cpu=1).labels(app="a").on_node(f"n{i}").build())
    assert picture(cluster) == picture(fresh_copy(cluster))


def test_nodes_are_walked_one_of_every_zone_in_turn() -> None:
    cluster = Cluster()
    for name, zone in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", ""), ("b2", "b")):
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        cluster.add(make_node(name).labels(labels).build())
    assert cluster.order.names() == ("a1", "b1", "c1", "a2", "b2", "a3")
