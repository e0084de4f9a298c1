"""Claims that are made, change or are given up bring back pods that wait for devices."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.objects import Pod, ResourceClaim
from stowplan.plugins.dynamicresources.plugin import DynamicResources
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.dynamicresources.world import make_class, make_slice
from tests.unit.plugins.waking import wakes

USER = {"resource": "pods", "name": "x", "uid": "x"}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def plugin(cluster: Cluster) -> DynamicResources:
    return build_plugin(DynamicResources, cluster)


def named(*claims: str) -> Pod:
    return make_pod("p").spec(resourceClaims=[{"name": c, "resourceClaimName": c} for c in claims]).build()


def claim(name: str, **status: Any) -> ResourceClaim:
    return make_object(ResourceClaim, name, status=status)


ALLOCATED: dict[str, Any] = {"allocation": {"devices": {"results": []}}}


def test_a_claim_of_the_pod_that_comes_or_whose_status_changes(
    cluster: Cluster, plugin: DynamicResources
) -> None:
    cluster.add(claim("a"))
    assert wakes(plugin, named("a"), None, claim("a"))
    assert wakes(plugin, named("a"), claim("a"), claim("a", reservedFor=[USER]))
    assert not wakes(plugin, named("a"), claim("a"), claim("a"))


def test_as_long_as_a_claim_is_missing_nothing_about_claims_helps(
    cluster: Cluster, plugin: DynamicResources
) -> None:
    cluster.add(claim("a"))
    assert not wakes(plugin, named("a", "missing"), None, claim("a"))
    assert not wakes(plugin, named("missing"), claim("a", **ALLOCATED), claim("a"))


def test_devices_that_anybody_gives_back(cluster: Cluster, plugin: DynamicResources) -> None:
    cluster.add(claim("mine"))
    cluster.add(claim("theirs"))
    assert wakes(plugin, named("mine"), claim("theirs", **ALLOCATED), claim("theirs"))
    assert not wakes(plugin, named("mine"), claim("theirs"), claim("theirs", **ALLOCATED))
    assert not wakes(plugin, named("mine"), None, claim("theirs"))


def test_a_claim_that_was_made_for_the_pod(cluster: Cluster, plugin: DynamicResources) -> None:
    def pod(**status: Any) -> Pod:
        entry = {"name": "a", "resourceClaimTemplateName": "t"}
        return make_pod("p").spec(resourceClaims=[entry]).status(**status).build()

    waiting, served = pod(), pod(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "p-a-x"}])
    assert not wakes(plugin, served, waiting, served), "the claim itself is not known yet"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": served.uid, "controller": True}
    cluster.add(make_object(ResourceClaim, "p-a-x", metadata={"ownerReferences": [owner]}))
    assert wakes(plugin, served, waiting, served)
    assert not wakes(plugin, named("p-a-x"), make_pod("q").build(), make_pod("q").labels(a="b").build())


def test_devices_classes_and_nodes(plugin: DynamicResources) -> None:
    pod = named("a")
    assert wakes(plugin, pod, None, make_slice("s"))
    assert wakes(plugin, pod, make_slice("s"), make_slice("s", generation=2))
    assert not wakes(plugin, pod, make_slice("s"), None)
    assert wakes(plugin, pod, None, make_class())
    assert wakes(plugin, pod, None, make_node("n").build())
    assert wakes(plugin, pod, make_node("n").build(), make_node("n").labels(a="b").build())
    assert not wakes(plugin, pod, make_node("n").build(), make_node("n").annotations(a="b").build())
