"""Which registrations an event meets."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster, NodeRow
from stowplan.framework.contract import BindPlugin, CycleState, FilterPlugin
from stowplan.framework.events import NODE_ADD, Action, ClusterEvent, EventHint, Resource, cluster_event
from stowplan.framework.registry import RegistryError
from stowplan.objects import Pod
from stowplan.plugins.node_name import NodeName
from stowplan.queue.hints import Hints
from stowplan.testing.plugins import build_plugin
from tests.unit.queue.rig import CLASS_ADD, NODE_LABEL, NODE_TAINT


class Undeclared(FilterPlugin):
    """Says nothing about events."""

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> None:
        return None


class Binds(BindPlugin):
    """Never rejects a pod at a point from which it would wait for events."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None


def plugins(event: ClusterEvent, *kinds: type) -> frozenset[str]:
    return Hints([build_plugin(kind, Cluster()) for kind in kinds]).for_event(event).plugins


def test_a_plugin_that_declares_nothing_is_asked_about_everything() -> None:
    for event in (NODE_ADD, NODE_TAINT, CLASS_ADD, cluster_event(Resource.ASSIGNED_POD, Action.UPDATE)):
        assert plugins(event, Undeclared, Binds) == {"Undeclared"}


@pytest.mark.parametrize("events", [5, ["NodeAdd"], KeyError("no")])
def test_a_plugin_whose_events_cannot_be_read_is_named(events: Any) -> None:
    class Muddled(Undeclared):
        def events(self) -> Any:
            if isinstance(events, Exception):
                raise events
            return events

    with pytest.raises(RegistryError, match="plugin Muddled: its events cannot be read"):
        Hints([build_plugin(Muddled, Cluster())])


def test_who_waits_for_new_nodes_is_asked_about_taints_and_no_other_change() -> None:
    assert plugins(NODE_ADD, NodeName) == {"NodeName"}
    assert plugins(NODE_TAINT, NodeName) == {"NodeName"}
    assert not plugins(NODE_LABEL, NodeName)


def test_a_pod_is_a_pod_wherever_it_is() -> None:
    registered = EventHint(Resource.POD, Action.ADD | Action.DELETE)
    assert cluster_event(Resource.ASSIGNED_POD, Action.ADD).matches(registered)
    assert cluster_event(Resource.UNSCHEDULABLE_POD, Action.DELETE).matches(registered)
    assert not cluster_event(Resource.NODE, Action.ADD).matches(registered)
    assert not cluster_event(Resource.POD, Action.ADD).matches(EventHint(Resource.ASSIGNED_POD, Action.ADD))


def test_a_general_update_meets_only_registrations_for_all_updates() -> None:
    update = cluster_event(Resource.ASSIGNED_POD, Action.UPDATE)
    assert not update.matches(EventHint(Resource.POD, Action.UPDATE_POD_LABEL))
    assert update.matches(EventHint(Resource.POD, Action.UPDATE))
    assert cluster_event(Resource.POD, Action.UPDATE_POD_LABEL).matches(
        EventHint(Resource.POD, Action.UPDATE)
    )


def test_hints_by_shape_count_only_if_all_that_are_asked_judge_so() -> None:
    class ByShape(Undeclared):
        def events(self) -> tuple[EventHint, ...]:
            return (EventHint(Resource.NODE, Action.ADD, lambda pod, old, new: True, by_shape=True),)

    class ByPod(Undeclared):
        def events(self) -> tuple[EventHint, ...]:
            return (EventHint(Resource.NODE, Action.ADD, lambda pod, old, new: True),)

    hints = Hints([build_plugin(kind, Cluster()) for kind in (ByShape, ByPod, NodeName)]).for_event(NODE_ADD)
    assert hints.asked(frozenset(("ByShape", "NodeName"))).by_shape
    assert not hints.asked(frozenset(("ByShape", "ByPod"))).by_shape
    assert [one.plugin for one in hints.asked(frozenset(("ByPod",))).registered] == ["ByPod"]
