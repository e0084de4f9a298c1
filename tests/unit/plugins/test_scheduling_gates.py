"""SchedulingGates: gated pods stay out, and are told which gates hold them."""

from __future__ import annotations

from stowplan.cluster import Cluster
from stowplan.framework import unresolvable
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin


def test_a_pod_without_gates_may_enter() -> None:
    plugin = build_plugin(SchedulingGates, Cluster())
    assert plugin.pre_enqueue(make_pod("p").build()) is None


def test_all_gates_are_named_in_order() -> None:
    plugin = build_plugin(SchedulingGates, Cluster())
    held = plugin.pre_enqueue(make_pod("p").gate("quota", "image").build())
    assert held == unresolvable("waiting for scheduling gates: [quota image]")
