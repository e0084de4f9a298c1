"""The helpers that plugin authors test with: they decide for real, with the author's plugins on top."""

from __future__ import annotations

import pytest

from stowplan.cluster import NodeRow
from stowplan.config.problems import ConfigError
from stowplan.framework import (
    CycleState,
    FilterPlugin,
    Handle,
    PluginArgs,
    PreEnqueuePlugin,
    Status,
    unschedulable,
)
from stowplan.framework.registry import RegistryError
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import cluster_of, decide, explain

CLUSTER = cluster_of(make_node("one").capacity(cpu=4, pods=9), make_node("two").capacity(cpu=8, pods=9))


class NotTwo(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return unschedulable("it is two") if node.name == "two" else None


class Waits(PreEnqueuePlugin):
    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unschedulable("not today") if pod.name == "early" else None


class Fails(PreEnqueuePlugin):
    def pre_enqueue(self, pod: Pod) -> Status | None:
        raise RuntimeError("the disk is on fire")


class CannotBeBuilt(NotTwo):
    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        raise OSError("no such table")


def test_a_plugin_that_cannot_be_built_is_named() -> None:
    with pytest.raises(
        RegistryError, match=r"plugin CannotBeBuilt .* default-scheduler \(OSError: no such table\)"
    ):
        decide(CLUSTER, make_pod("p"), plugins=[CannotBeBuilt])


def test_without_plugins_the_default_profile_decides() -> None:
    assert decide(CLUSTER, make_pod("p").requests(cpu=5)).node_name == "two"


def test_plugins_are_enabled_besides_the_default_ones() -> None:
    assert decide(CLUSTER, make_pod("p").requests(cpu=2), plugins=[NotTwo]).node_name == "one"
    decision = decide(CLUSTER, make_pod("p").requests(cpu=5), plugins=[NotTwo])
    assert decision.node_name is None
    assert decision.message.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 it is two.")


def test_a_configuration_says_which_plugins_are_enabled() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {filter: {enabled: [{name: NotTwo}], disabled: [{name: NodeResourcesFit}]}}}]
"""
    pod = make_pod("p").requests(cpu=5)
    assert decide(CLUSTER, pod, plugins=[NotTwo], config=config).node_name == "one"
    with pytest.raises(ConfigError, match="NotTwo"):
        decide(CLUSTER, pod, config=config)


def test_the_account_names_who_rejected_a_node() -> None:
    trace = explain(CLUSTER, make_pod("p"), plugins=[NotTwo])
    assert trace.best == ("one",)
    assert (trace.rejected["two"].plugin, trace.rejected["two"].reasons) == ("NotTwo", ("it is two",))


def test_the_account_names_who_holds_the_pod_back() -> None:
    held_back = explain(CLUSTER, make_pod("early"), plugins=[Waits]).held_back
    assert held_back == unschedulable("not today").by("Waits")
    assert explain(CLUSTER, make_pod("late"), plugins=[Waits]).held_back is None


def test_a_plugin_that_fails_is_named_in_the_account() -> None:
    trace = explain(CLUSTER, make_pod("p"), plugins=[Fails])
    assert trace.error == 'running PreEnqueue plugin "Fails": RuntimeError: the disk is on fire'
