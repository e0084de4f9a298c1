"""Small profiles and random clusters for the tests of preemption."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stowplan.cluster import Cluster, NodeRow
from stowplan.engine.decide import Decider
from stowplan.engine.explain import explain
from stowplan.framework import CycleState, FilterPlugin, Plugin, Reads, Status, unresolvable
from stowplan.framework.decision import Decision
from stowplan.framework.handle import Host
from stowplan.framework.points import points_of
from stowplan.framework.profile import Profile, ProfilePlan
from stowplan.framework.registry import register
from stowplan.framework.trace import PreemptionTrace
from stowplan.objects import Pod
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.noderesources.fit import NodeResourcesFit


class NamesBelowThree(FilterPlugin):
    """A filter behind the one for room that reads the node alone."""

    reads = Reads.NODE

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return unresolvable("name is too high") if node.name > "n2" else None


class World:
    """A cluster and a profile that filters by room, and preempts."""

    def __init__(self, cluster: Cluster, *more: type[Plugin], **args: Any) -> None:
        self.cluster = cluster
        registry = register([NodeUnschedulable, NodeResourcesFit, DefaultPreemption, *more])
        points = {
            point: tuple(name for name, entry in registry.items() if point in points_of(entry))
            for point in ("preFilter", "filter", "postFilter")
        }
        given = {name: entry.Args().completed() for name, entry in registry.items()}
        if args:
            given["DefaultPreemption"] = DefaultPreemption.Args(**args)
        self.profile = Profile(ProfilePlan(points=points, args=given), registry, Host(cluster))
        self.decider = Decider(self.profile)

    def decide(self, pod: Pod) -> Decision:
        """The quick way."""
        return self.decider.decide(pod)

    def trace(self, pod: Pod) -> PreemptionTrace:
        """The complete way: every node tried one by one."""
        trace = explain(self.profile, pod)
        assert not trace.error
        assert trace.preemption is not None
        return trace.preemption


NAMES = st.integers(0, 4).map("n{}".format)
CPUS = st.sampled_from(["0", "500m", "1", "1500m", "2"])
MEMORY = st.sampled_from(["0", "1Gi", "2Gi", "3Gi"])
PRIORITIES = st.sampled_from([-5, 0, 0, 10, 10, 20])
STARTS = st.one_of(st.none(), st.integers(0, 3).map("2026-01-01T0{}:00:00Z".format))
APPS = st.sampled_from(["a", "b", "c"])
