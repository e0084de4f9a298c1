"""Pods with volumes: bound, found, made for them, and waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.stage import BOUND, CLAIMS, HOST, STORAGE, VOLUMES, ZONE, Stage, eventually
from tests.e2e.test_queueing import Scenario, play
from tests.e2e.volume_controller import SELECTED, VolumeController, volume_controller, volume_on

pytestmark = pytest.mark.control_plane

DRIVER = "csi.example.com"
STATIC = "kubernetes.io/no-provisioner"


@pytest.fixture
def controller(stage: Stage) -> Iterator[VolumeController]:
    with volume_controller(stage.plane) as controller:
        yield controller


def make_class(stage: Stage, name: str, provisioner: str = DRIVER, **more: Any) -> None:
    body = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}
    stage.make(f"{STORAGE}/storageclasses", name, **body)


def make_claim(stage: Stage, name: str, storage_class: str, *, size: str = "1Gi", **more: Any) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
        **more.pop("spec", {}),
    }
    stage.make(CLAIMS, name, spec=spec, **more)


def make_volume(stage: Stage, volume: dict[str, Any]) -> None:
    name = volume["metadata"]["name"]
    stage.make(VOLUMES, name, spec=volume["spec"], metadata=volume["metadata"])
    stage.api.patch(f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}})


def make_claim_of(stage: Stage, name: str, volume: str, **spec: Any) -> None:
    """A claim that has this volume."""
    make_claim(stage, name, "", spec={"volumeName": volume, **spec}, metadata={"annotations": BOUND})


def make_bound_claim(stage: Stage, name: str, node: str, **spec: Any) -> None:
    """A claim that has had its volume for long."""
    volume = volume_on(f"of-{name}", "", node)
    volume["spec"]["claimRef"] = {"namespace": "default", "name": name}
    make_volume(stage, volume)
    make_claim_of(stage, name, f"of-{name}", **spec)
    stage.api.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})


def using(*claims: str) -> list[dict[str, Any]]:
    return [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in claims]


def selected(stage: Stage) -> str:
    """The node for which a volume of the claim `data` is to be made."""
    annotations = stage.api.get(f"{CLAIMS}/data")["metadata"].get("annotations", {})
    found: str = annotations.get(SELECTED, "")
    return found


def limited(stage: Stage, node: str, count: int) -> None:
    driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": count}}
    stage.make(f"{STORAGE}/csinodes", node, spec={"drivers": [driver]})


def test_a_volume_that_exists_leads_to_its_node(stage: Stage) -> None:
    for name in ("one", "two", "three"):
        stage.node(name)
    stage.running_pod("tenant", "two", cpu="2")
    make_bound_claim(stage, "data", "two")
    stage.pod("target", volumes=using("data"))
    assert stage.placed("target") == "two"


def test_a_volume_is_made_where_the_pod_goes(stage: Stage, controller: VolumeController) -> None:
    stage.node("small", cpu="1")
    stage.node("large", cpu="8")
    make_class(stage, "wait")
    make_claim(stage, "data", "wait")
    make_claim(stage, "log", "wait")
    stage.pod("target", cpu="2", volumes=using("data", "log"))
    assert stage.placed("target") == "large"
    assert controller.provisioned == {"data": "large", "log": "large"}
    stage.pod("reader", volumes=using("data"))
    assert stage.placed("reader") == "large"


def test_volumes_are_chosen_with_the_node(stage: Stage, controller: VolumeController) -> None:
    """On one node there is one volume, on the other there are two; the smallest that will do are taken."""
    stage.node("one", cpu="8")
    stage.node("two", cpu="2")
    make_class(stage, "disks", STATIC)
    for name, node, size in (
        ("one-a", "one", "10Gi"),
        ("two-a", "two", "100Gi"),
        ("two-b", "two", "20Gi"),
        ("two-c", "two", "10Gi"),
    ):
        make_volume(stage, volume_on(name, "disks", node, size))
    make_claim(stage, "data", "disks", size="15Gi")
    make_claim(stage, "log", "disks", size="5Gi")
    stage.pod("target", volumes=using("data", "log"))
    assert stage.placed("target") == "two"
    given = {name: stage.api.get(f"{CLAIMS}/{name}")["spec"]["volumeName"] for name in ("data", "log")}
    assert given == {"data": "two-b", "log": "two-c"}


def test_two_pods_do_not_get_the_same_volume(stage: Stage, controller: VolumeController) -> None:
    for name in ("one", "two"):
        stage.node(name)
    make_class(stage, "disks", STATIC)
    for name in ("one", "two"):
        make_volume(stage, volume_on(f"on-{name}", "disks", name))
    for number in range(3):
        make_claim(stage, f"claim-{number}", "disks")
        stage.pod(f"p{number}", volumes=using(f"claim-{number}"))
    stage.placed_in_all([f"p{number}" for number in range(3)], ["", "one", "two"])
    stage.refused_in_all(1)


def test_the_topology_of_a_class_counts(stage: Stage, controller: VolumeController) -> None:
    stage.node("a", labels={ZONE: "a"}, cpu="64")
    stage.node("b", labels={ZONE: "b"})
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    make_class(stage, "only-b", allowedTopologies=topology)
    make_claim(stage, "data", "only-b")
    stage.pod("target", volumes=using("data"))
    assert stage.placed("target") == "b"


def test_volumes_of_a_zone_keep_their_pods_there(stage: Stage) -> None:
    stage.node("a", labels={ZONE: "a"}, cpu="64")
    stage.node("b", labels={ZONE: "b"})
    volume = volume_on("of-data", "", "b")
    del volume["spec"]["nodeAffinity"]
    volume["metadata"]["labels"] = {ZONE: "b"}
    make_volume(stage, volume)
    make_claim_of(stage, "data", "of-data")
    stage.pod("target", volumes=using("data"))
    assert stage.placed("target") == "b"


def test_nodes_hold_so_many_volumes(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.node(name)
        limited(stage, name, count=1)
        volume = volume_on(f"of-{name}", "", name)
        del volume["spec"]["nodeAffinity"]
        make_volume(stage, volume)
        make_claim_of(stage, name, f"of-{name}")
    stage.settle()
    stage.running_pod("first", "one", volumes=using("one"))
    stage.running_pod("tenant", "two", cpu="2")
    stage.pod("target", volumes=using("two"))
    assert stage.placed("target") == "two"


def test_a_volume_for_one_pod_only(stage: Stage) -> None:
    stage.node("one")
    make_bound_claim(stage, "data", "one", accessModes=["ReadWriteOncePod"])
    stage.pod("first", volumes=using("data"))
    assert stage.placed("first") == "one"
    stage.pod("second", volumes=using("data"))
    stage.refused(
        "second", "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod."
    )
    stage.delete_pod("first")
    assert stage.placed("second") == "one"


def test_a_volume_that_nobody_makes_keeps_its_pod_on_the_way(stage: Stage) -> None:
    """The pod has its node and its room while it waits; deleted, it leaves both."""
    stage.node("one", cpu="2")
    make_class(stage, "wait")
    make_claim(stage, "data", "wait")
    stage.pod("waits", cpu="2", volumes=using("data"))
    assert eventually(lambda: selected(stage)) == "one"
    assert stage.cached("assumed_pods") == 1
    stage.pod("next", cpu="2")
    stage.refused("next", "1 Insufficient cpu.")
    stage.delete_pod("waits")
    assert stage.placed("next") == "one"
    eventually(lambda: not stage.cached("assumed_pods"))


def test_the_provisioner_gives_a_node_back(stage: Stage) -> None:
    """It takes the annotation away when it cannot make the volume there: the pod is decided again."""
    stage.node("one")
    stage.node("two")
    make_class(stage, "wait")
    make_claim(stage, "data", "wait")
    stage.pod("waits", volumes=using("data"))
    first = eventually(lambda: selected(stage))
    other = {"one": "two", "two": "one"}[first]
    stage.change_node(first, spec={"unschedulable": True})
    stage.settle()
    stage.api.patch(f"{CLAIMS}/data", {"metadata": {"annotations": {SELECTED: None}}})
    assert eventually(lambda: selected(stage) == other)
    with volume_controller(stage.plane):
        assert stage.placed("waits") == other


# What brings pods with volumes back, and what does not


def its_claim_is_made(stage: Stage) -> Iterator[str]:
    stage.node("one")
    make_volume(stage, volume_on("disk", "", "one"))
    make_class(stage, "wait")
    stage.pod("waits", volumes=using("data"))
    yield 'persistentvolumeclaim "data" not found'
    make_claim(stage, "other", "wait")
    yield "another claim"
    make_claim_of(stage, "data", "disk")
    yield "one"


def its_claim_is_bound(stage: Stage) -> Iterator[str]:
    stage.node("one")
    make_volume(stage, volume_on("disk", "now", "one"))
    make_class(stage, "now", volumeBindingMode="Immediate")
    make_claim(stage, "data", "now")
    make_claim(stage, "other", "now")
    stage.pod("waits", volumes=using("data"))
    yield "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    stage.api.patch(f"{CLAIMS}/other", {"metadata": {"labels": {"app": "shop"}}})
    stage.change_node("one", metadata={"annotations": {"disk": "yes"}})
    yield "another claim"
    done = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": "disk"}}
    stage.api.patch(f"{CLAIMS}/data", done)
    yield "one"


def a_volume_is_added(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.node("two")
    make_class(stage, "disks", STATIC)
    make_claim(stage, "data", "disks")
    stage.pod("waits", volumes=using("data"))
    yield "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    stage.api.patch(f"{STORAGE}/storageclasses/disks", {"metadata": {"labels": {"kind": "slow"}}})
    stage.running_pod("tenant", "one")
    yield "no volume"
    make_volume(stage, volume_on("disk", "disks", "two"))
    yield "two"


def its_class_is_added(stage: Stage) -> Iterator[str]:
    stage.node("one")
    make_class(stage, "other")
    make_claim(stage, "data", "late")
    stage.pod("waits", volumes=using("data"))
    yield "pod has unbound immediate PersistentVolumeClaims"
    stage.api.patch(f"{STORAGE}/storageclasses/other", {"metadata": {"labels": {"kind": "slow"}}})
    yield "another class"
    make_class(stage, "late")
    yield "one"


def a_node_can_hold_more_volumes(stage: Stage) -> Iterator[str]:
    stage.node("one")
    limited(stage, "one", count=1)
    make_bound_claim(stage, "theirs", "one")
    make_bound_claim(stage, "mine", "one")
    stage.settle()
    stage.running_pod("first", "one", volumes=using("theirs"))
    stage.pod("waits", volumes=using("mine"))
    yield "0/1 nodes are available: 1 node(s) exceed max volume count."
    path = f"{STORAGE}/csinodes/one"
    stage.api.patch(path, {"metadata": {"annotations": {"volumes": "more"}}})
    stage.change_node("one", metadata={"annotations": {"volumes": "more"}})
    yield "no more than before"
    driver = {"name": DRIVER, "nodeID": "one", "allocatable": {"count": 2}}
    stage.api.patch(path, {"spec": {"drivers": [driver]}})
    yield "one"


def a_pod_leaves_with_its_volume(stage: Stage) -> Iterator[str]:
    stage.node("one")
    limited(stage, "one", count=1)
    make_bound_claim(stage, "theirs", "one")
    make_bound_claim(stage, "mine", "one")
    stage.settle()
    stage.running_pod("first", "one", volumes=using("theirs"))
    stage.running_pod("plain", "one")
    stage.pod("waits", volumes=using("mine"))
    yield "0/1 nodes are available: 1 node(s) exceed max volume count."
    stage.delete_pod("plain")
    yield "it had no volume"
    stage.delete_pod("first")
    yield "one"


def storage_grows(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.make(f"{STORAGE}/csidrivers", DRIVER, spec={"storageCapacity": True})
    capacities = f"{STORAGE}/namespaces/default/csistoragecapacities"
    everywhere = {"storageClassName": "wait", "nodeTopology": {"matchLabels": {HOST: "one"}}}
    stage.make(capacities, "pool", capacity="3Gi", **everywhere)
    make_class(stage, "wait")
    make_claim(stage, "data", "wait", size="5Gi")
    stage.settle()
    stage.pod("waits", volumes=using("data"))
    yield "0/1 nodes are available: 1 node(s) did not have enough free storage."
    stage.api.patch(f"{capacities}/pool", {"capacity": "2Gi"})
    yield "even less"
    stage.api.patch(f"{capacities}/pool", {"capacity": "50Gi"})
    yield "one"


SCENARIOS: tuple[Scenario, ...] = (
    its_claim_is_made,
    its_claim_is_bound,
    a_volume_is_added,
    its_class_is_added,
    a_node_can_hold_more_volumes,
    a_pod_leaves_with_its_volume,
    storage_grows,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_it_is_tried_again_when_it_may_help_and_only_then(stage: Stage, scenario: Scenario) -> None:
    binds = scenario in (a_volume_is_added, its_class_is_added, storage_grows)
    if not binds:
        play(stage, scenario)
        return
    with volume_controller(stage.plane):
        play(stage, scenario)
