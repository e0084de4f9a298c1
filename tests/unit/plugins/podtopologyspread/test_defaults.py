"""What a pod belongs to: services that select it and its controller."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.objects import EVERYTHING, LabelSelector, Selector, compile_selector, selector_from_labels
from stowplan.objects.meta import LabelSelectorRequirement
from stowplan.plugins.podtopologyspread.defaults import DefaultSelectors
from stowplan.testing.builders import PodBuilder, make_object, make_pod


def service(name: str, namespace: str = "default", **selector: str) -> Any:
    return make_object("Service", name, namespace, spec={"selector": selector})


def selector_for(pod: PodBuilder, *objects: Any) -> Selector:
    cluster = Cluster()
    for obj in objects:
        cluster.add(obj)
    return DefaultSelectors(cluster).selector_for(pod.build())


def pod() -> PodBuilder:
    return make_pod("p").labels(app="a", tier="web")


def test_a_pod_of_nothing_has_no_selector() -> None:
    assert selector_for(pod()) is EVERYTHING
    assert selector_for(pod(), service("other", app="b")) is EVERYTHING


def test_the_selectors_of_all_its_services_are_merged() -> None:
    found = selector_for(
        pod(), service("one", app="a"), service("two", tier="web"), service("three", app="b")
    )
    assert found is selector_from_labels({"app": "a", "tier": "web"})


def test_services_of_other_namespaces_and_without_selector_do_not_count() -> None:
    assert selector_for(pod(), service("one", "other", app="a"), service("two")) is EVERYTHING


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [("ReplicationController", "v1"), ("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1")],
)
def test_its_controllers_selector_counts_too(kind: str, api_version: str) -> None:
    labels = {"app": "a"}
    selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
    owner = make_object(kind, "owner", "default", spec={"selector": selector})
    owned = pod().owned_by(kind, "owner", api_version)
    assert selector_for(owned, owner) is selector_from_labels(labels)
    assert selector_for(owned, owner, service("s", tier="web")) is selector_from_labels(
        {"app": "a", "tier": "web"}
    )
    assert selector_for(pod().owned_by(kind, "gone", api_version), owner) is EVERYTHING
    assert selector_for(pod().owned_by(kind, "owner", "example.com/v1"), owner) is EVERYTHING


def test_conditions_of_a_replica_set_are_kept() -> None:
    condition = {"key": "app", "operator": "In", "values": ["a", "b"]}
    owner = make_object("ReplicaSet", "owner", spec={"selector": {"matchExpressions": [condition]}})
    found = selector_for(pod().owned_by("ReplicaSet", "owner"), owner, service("s", tier="web"))
    wanted = LabelSelector(
        match_labels={"tier": "web"},
        match_expressions=(LabelSelectorRequirement(key="app", operator="In", values=("a", "b")),),
    )
    assert found is compile_selector(wanted)


@pytest.mark.parametrize("spec", [{}, {"selector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}])
def test_an_owner_without_a_usable_selector_adds_nothing(spec: dict[str, Any]) -> None:
    owner = make_object("ReplicaSet", "owner", spec=spec)
    found = selector_for(pod().owned_by("ReplicaSet", "owner"), owner, service("s", app="a"))
    assert found is selector_from_labels({"app": "a"})


def test_what_is_known_is_found_again_when_services_or_owners_change() -> None:
    cluster = Cluster()
    selectors = DefaultSelectors(cluster)
    owned = pod().owned_by("ReplicaSet", "owner").build()
    assert selectors.selector_for(owned) is EVERYTHING
    cluster.add(service("s", app="a"))
    assert selectors.selector_for(owned) is selector_from_labels({"app": "a"})
    cluster.add(make_object("ReplicaSet", "owner", spec={"selector": {"matchLabels": {"tier": "web"}}}))
    assert selectors.selector_for(owned) is selector_from_labels({"app": "a", "tier": "web"})
    cluster.add(make_object("ReplicaSet", "owner", spec={"selector": {"matchLabels": {"app": "a"}}}))
    assert selectors.selector_for(owned) is selector_from_labels({"app": "a"})
    cluster.remove(service("s"))
    cluster.remove(make_object("ReplicaSet", "owner"))
    assert selectors.selector_for(owned) is EVERYTHING
