"""The plugins do what they say, and an installed stowplan finds them."""

from __future__ import annotations

import numpy as np

from stowplan.framework import CycleState
from stowplan.framework.registry import discover
from stowplan.testing import Queued, build_plugin, cluster_of, decide, explain, make_node, make_pod
from stowplan_example_plugins.qos_sort import QOSSort
from stowplan_example_plugins.smallest_node import SmallestNode

GUARANTEED = make_pod("guaranteed").requests(cpu="1000m", memory="1Gi").limits(cpu=1, memory="1Gi")
LIMITED = make_pod("limited").limits(cpu=1, memory="1Gi")
BURSTABLE = make_pod("burstable").requests(cpu=1)
BEST_EFFORT = make_pod("besteffort").requests(cpu=0)
AS_A_WHOLE = make_pod("whole").spec(resources={"limits": {"cpu": 1, "memory": "1Gi"}})


def order(*queued: Queued) -> list[str]:
    sort = build_plugin(QOSSort, cluster_of())
    return [one.pod.name for one in sorted(queued, key=sort.sort_key)]


def test_guaranteed_comes_before_burstable_before_best_effort() -> None:
    queued = [Queued(pod.build()) for pod in (BEST_EFFORT, BURSTABLE, GUARANTEED)]
    assert order(*queued) == ["guaranteed", "burstable", "besteffort"]


def test_limits_alone_make_a_pod_guaranteed() -> None:
    assert order(Queued(BURSTABLE.build(), 1.0), Queued(LIMITED.build(), 2.0)) == ["limited", "burstable"]


def test_what_a_pod_asks_for_as_a_whole_counts() -> None:
    assert order(Queued(BURSTABLE.build(), 1.0), Queued(AS_A_WHOLE.build(), 2.0)) == ["whole", "burstable"]


def test_a_higher_priority_comes_first_whatever_the_class() -> None:
    urgent = make_pod("urgent").priority(10)
    assert order(Queued(GUARANTEED.build()), Queued(urgent.build())) == ["urgent", "guaranteed"]


def test_equals_are_served_first_come_first_served() -> None:
    late, early = Queued(make_pod("late").build(), 2.0), Queued(make_pod("early").build(), 1.0)
    assert order(late, early) == ["early", "late"]


NODES = (
    make_node("big").capacity(cpu=64, memory="64Gi", pods=10),
    make_node("small").capacity(cpu=4, memory="64Gi", pods=10),
)


def test_the_smallest_node_gets_the_most() -> None:
    trace = explain(cluster_of(*NODES), make_pod("p"), plugins=[SmallestNode])
    assert trace.scores["small"]["SmallestNode"].normalized == 94
    assert trace.scores["big"]["SmallestNode"].normalized == 0


def test_with_it_the_small_node_is_chosen() -> None:
    request = make_pod("p").requests(cpu="1")
    assert decide(cluster_of(*NODES), request).node_name == "big"
    assert decide(cluster_of(*NODES), request, plugins=[SmallestNode]).node_name == "small"


def test_both_forms_of_the_score_agree() -> None:
    cluster = cluster_of(*NODES)
    plugin = build_plugin(SmallestNode, cluster)
    one_by_one = [plugin.score_node(CycleState(), make_pod("p").build(), node) for node in cluster.nodes]
    np.testing.assert_array_equal(
        plugin.score(CycleState(), make_pod("p").build(), cluster.nodes), one_by_one
    )


def test_the_installed_package_is_found_by_its_entry_points() -> None:
    found = discover({})
    assert found["QOSSort"] is QOSSort
    assert found["SmallestNode"] is SmallestNode
