"""Hard constraints: upstream's words, and the corners where upstream does not do what one would think."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, Code, CycleState, Status, unresolvable, unschedulable
from stowplan.objects import Pod
from stowplan.plugins.podtopologyspread import PodTopologySpread
from stowplan.testing.builders import PodBuilder, make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses

UNEVEN = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")


def zones(*on: str) -> Cluster:
    """Nodes n0 in zone x, n1 in y, n2 in none, and a pod of app a on each node named."""
    cluster = Cluster()
    for name, zone in (("n0", "x"), ("n1", "y")):
        cluster.add(make_node(name).labels(zone=zone).build())
    cluster.add(make_node("n2").build())
    for number, node in enumerate(on):
        cluster.add(make_pod(f"p{number}").labels(app="a").on_node(node).build())
    return cluster


def spread_by(**fields: Any) -> PodBuilder:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"labelSelector": {"matchLabels": {"app": "a"}}}
    return (
        make_pod("p").labels(app="a").spec(topologySpreadConstraints=[{**constraint, **selector, **fields}])
    )


def judged(cluster: Cluster, pod: PodBuilder) -> list[Status | None]:
    return statuses(build_plugin(PodTopologySpread, cluster), pod.build(), cluster)


def test_a_domain_may_be_ahead_by_max_skew() -> None:
    assert judged(zones("n0"), spread_by()) == [UNEVEN, None, NO_LABEL]
    assert judged(zones("n0"), spread_by(maxSkew=2)) == [None, None, NO_LABEL]


def test_a_pod_that_is_not_of_its_own_kind_does_not_count_itself() -> None:
    assert judged(zones("n0"), spread_by().labels(app="b")) == [None, None, NO_LABEL]


def test_with_too_few_domains_the_lowest_count_is_zero() -> None:
    full = zones("n0", "n1")
    assert judged(full, spread_by(minDomains=2)) == [None, None, NO_LABEL]
    assert judged(full, spread_by(minDomains=3)) == [UNEVEN, UNEVEN, NO_LABEL]


def test_nodes_that_the_pod_cannot_use_anyway_are_left_out_of_the_counts() -> None:
    assert judged(zones("n0"), spread_by().node_selector(zone="x")) == [None, None, NO_LABEL]
    ignoring = spread_by(nodeAffinityPolicy="Ignore").node_selector(zone="x")
    assert judged(zones("n0"), ignoring) == [UNEVEN, None, NO_LABEL]


def test_tainted_nodes_are_left_out_only_when_taints_are_honored() -> None:
    cluster = zones("n0")
    cluster.add(make_node("n1").labels(zone="y").taint("busy").build())
    assert judged(cluster, spread_by()) == [UNEVEN, None, NO_LABEL]
    assert judged(cluster, spread_by(nodeTaintsPolicy="Honor")) == [None, None, NO_LABEL]
    tolerant = spread_by(nodeTaintsPolicy="Honor").tolerate("busy")
    assert judged(cluster, tolerant) == [UNEVEN, None, NO_LABEL]


def test_when_no_node_counts_every_domain_will_do() -> None:
    assert judged(zones("n0"), spread_by().node_selector(zone="gone")) == [None, None, NO_LABEL]


def test_match_label_keys_narrow_to_pods_with_the_same_value() -> None:
    cluster = zones("n0")
    cluster.add(make_pod("new").labels(app="a", version="2").on_node("n1").build())
    pod = spread_by(matchLabelKeys=["version", "absent"]).labels(version="2")
    assert judged(cluster, pod) == [None, UNEVEN, NO_LABEL]


def test_pods_that_are_going_or_of_other_namespaces_do_not_count() -> None:
    cluster = zones()
    cluster.add(make_pod("going").labels(app="a").on_node("n0").terminating().build())
    cluster.add(make_pod("foreign", "other").labels(app="a").on_node("n0").build())
    assert judged(cluster, spread_by()) == [None, None, NO_LABEL]


def test_a_selector_that_selects_everything_counts_nobody_but_the_pod() -> None:
    assert judged(zones("n0", "n0"), spread_by(labelSelector={})) == [None, None, NO_LABEL]
    assert judged(zones("n0", "n0"), spread_by(labelSelector={}, maxSkew=0)) == [UNEVEN, UNEVEN, NO_LABEL]


def in_trial(cluster: Cluster, pod: Pod, *added: PodBuilder) -> Status | None:
    """What the filter says of n0 after these pods were added there, in a trial."""
    plugin = build_plugin(PodTopologySpread, cluster)
    state = CycleState()
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    node = cluster.node("n0")
    assert node is not None
    with cluster.trial():
        for builder in added:
            other = builder.on_node("n0").build()
            cluster.add(other)
            plugin.add_pod(state, pod, other, node)
        return plugin.filter_node(state, pod, node)


def test_a_pod_that_a_trial_adds_counts_even_if_it_is_going() -> None:
    going = make_pod("going").labels(app="a").terminating()
    assert in_trial(zones(), spread_by().build(), going) == UNEVEN


def test_a_pod_that_a_trial_adds_counts_for_a_selector_that_selects_everything() -> None:
    assert in_trial(zones(), spread_by(labelSelector={}).build(), make_pod("any")) == UNEVEN


def test_a_pod_of_another_namespace_or_kind_changes_nothing_in_a_trial() -> None:
    foreign = make_pod("foreign", "other").labels(app="a")
    assert in_trial(zones(), spread_by().build(), foreign, make_pod("b").labels(app="b")) is None


def test_default_constraints_may_be_hard() -> None:
    hard = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    cluster = zones("n0")
    plugin = build_plugin(PodTopologySpread, cluster, defaultingType="List", defaultConstraints=[hard])
    pod = make_pod("p").labels(app="a").build()
    assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == SKIP
    cluster.add(make_object("Service", "s", spec={"selector": {"app": "a"}}))
    assert statuses(plugin, pod, cluster) == [UNEVEN, None, NO_LABEL]


@pytest.mark.parametrize("action", ["DoNotSchedule", "ScheduleAnyway"])
def test_a_mistake_in_a_selector_is_an_error_of_this_pod(action: str) -> None:
    wrong = {"matchExpressions": [{"key": "app", "operator": "Is"}]}
    pod = spread_by(labelSelector=wrong, whenUnsatisfiable=action).build()
    cluster = zones()
    plugin = build_plugin(PodTopologySpread, cluster)
    why = '"Is" is not a valid label selector operator'
    if action == "DoNotSchedule":
        text = f"get constraints from pod: obtaining pod's hard topology spread constraints: {why}"
        assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == Status(Code.ERROR, (text,))
    else:
        assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == SKIP
        text = f"calculating preScoreState: obtaining pod's soft topology spread constraints: {why}"
        assert plugin.pre_score(CycleState(), pod, cluster.nodes) == Status(Code.ERROR, (text,))
