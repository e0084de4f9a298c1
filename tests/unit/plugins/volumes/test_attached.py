"""Counts that are kept equal counts that are made afresh, whatever happened in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.framework import CycleState
from stowplan.objects import Pod
from stowplan.plugins.volumes.limits import NodeVolumeLimits
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.volumes.world import (
    a_claim,
    a_class,
    a_csi_node,
    a_volume,
    an_attachment,
    world,
)

NAMES = [f"n{i}" for i in range(4)]
CLAIMS = [f"c{i}" for i in range(6)]
names, claims = st.sampled_from(NAMES), st.sampled_from(CLAIMS)
numbers = st.integers(0, 3)


def volume(claim: str, handle: int) -> Any:
    driver = "csi.x" if handle % 2 else "csi.y"
    return a_volume(f"pv-{claim}", csi={"driver": driver, "volumeHandle": f"h{handle}"})


changes = st.one_of(
    st.tuples(st.just("node"), names),
    st.tuples(st.just("no node"), names),
    st.tuples(st.just("csi node"), names, numbers, numbers),
    st.tuples(st.just("no csi node"), names),
    st.tuples(st.just("pod"), numbers, names, st.lists(claims, max_size=3)),
    st.tuples(st.just("no pod"), numbers),
    st.tuples(st.just("claim"), claims, st.booleans()),
    st.tuples(st.just("no claim"), claims),
    st.tuples(st.just("volume"), claims, numbers),
    st.tuples(st.just("no volume"), claims),
    st.tuples(st.just("attachment"), numbers, names, claims),
    st.tuples(st.just("no attachment"), numbers),
    st.tuples(st.just("class"), st.sampled_from(["csi.x", "csi.y"])),
)


def carry_out(cluster: Cluster, change: tuple[Any, ...]) -> None:
    match change:
        case ("node", name):
            cluster.add(make_node(name).build())
        case ("no node", name):
            cluster.remove(make_node(name).build())
        case ("csi node", name, x, y):
            cluster.add(a_csi_node(name, {"csi.x": x, "csi.y": y or None}))
        case ("no csi node", name):
            cluster.remove(a_csi_node(name))
        case ("pod", number, name, used):
            cluster.add(make_pod(f"p{number}").pvc(*dict.fromkeys(used)).on_node(name).build())
        case ("no pod", number):
            cluster.remove(make_pod(f"p{number}").build())
        case ("claim", name, bound):
            cluster.add(a_claim(name, volume=f"pv-{name}" if bound else ""))
        case ("no claim", name):
            cluster.remove(a_claim(name))
        case ("volume", name, handle):
            cluster.add(volume(name, handle))
        case ("no volume", name):
            cluster.remove(volume(name, 0))
        case ("attachment", number, name, claim):
            cluster.add(an_attachment(f"a{number}", name, f"pv-{claim}"))
        case ("no attachment", number):
            cluster.remove(an_attachment(f"a{number}", "", None))
        case ("class", provisioner):
            cluster.add(a_class("wait", provisioner))


def codes(plugin: NodeVolumeLimits, pod: Pod, cluster: Cluster) -> list[int]:
    found: list[int] = plugin.filter(CycleState(), pod, cluster.nodes).codes.tolist()
    return found


@settings(max_examples=60)
@given(st.lists(st.lists(changes, max_size=6), max_size=8), st.lists(claims, min_size=1, max_size=2))
def test_what_is_kept_is_what_would_be_counted_now(
    history: list[list[tuple[Any, ...]]], used: list[str]
) -> None:
    cluster = world(a_class("wait"), *(a_csi_node(name, {"csi.x": 1}) for name in NAMES), nodes={})
    for claim in CLAIMS:
        cluster.add(a_claim(claim, volume=f"pv-{claim}"))
        cluster.add(volume(claim, len(claim)))
    for name in NAMES:
        cluster.add(make_node(name).build())
    plugin = build_plugin(NodeVolumeLimits, cluster)
    pod = make_pod("new").pvc(*dict.fromkeys(used)).build()
    for step in history:
        for change in step:
            carry_out(cluster, change)
        expected = codes(build_plugin(NodeVolumeLimits, cluster), pod, cluster)
        assert codes(plugin, pod, cluster) == expected
        singly = [plugin.filter_node(CycleState(), pod, node) for node in cluster.nodes]
        assert [bool(code) for code in expected] == [status is not None for status in singly]


def test_what_happens_in_a_trial_is_seen_there_and_forgotten_after() -> None:
    cluster = world(
        a_csi_node("n0", {"csi.x": 1}),
        *(a_claim(claim, volume=f"pv-{claim}") for claim in CLAIMS),
        *(volume(claim, 2 * number + 1) for number, claim in enumerate(CLAIMS)),
        make_pod("there").pvc("c0").on_node("n0").build(),
        nodes={"n0": {}},
    )
    plugin = build_plugin(NodeVolumeLimits, cluster)
    pod = make_pod("new").pvc("c1").build()
    assert codes(plugin, pod, cluster) == [1]
    with cluster.trial():
        cluster.remove_pod("default/there")
        assert codes(plugin, pod, cluster) == [0]
        assert plugin.filter_node(CycleState(), pod, cluster.nodes[0]) is None
    assert codes(plugin, pod, cluster) == [1]


def test_a_node_that_takes_the_row_of_another_brings_its_own_counts() -> None:
    cluster = world(
        a_csi_node("n0", {"csi.x": 1}),
        a_csi_node("n1", {"csi.x": 1}),
        *(a_claim(claim, volume=f"pv-{claim}") for claim in CLAIMS),
        *(volume(claim, 2 * number + 1) for number, claim in enumerate(CLAIMS)),
        make_pod("there").pvc("c0").on_node("n1").build(),
        nodes={"n0": {}, "n1": {}},
    )
    plugin = build_plugin(NodeVolumeLimits, cluster)
    pod = make_pod("new").pvc("c1").build()
    assert codes(plugin, pod, cluster) == [0, 1]
    cluster.remove_node("n0")
    assert codes(plugin, pod, cluster) == [1]
    assert codes(plugin, make_pod("new").pvc("c0").build(), cluster) == [0]
