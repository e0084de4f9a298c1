import pytest

from stowplan.objects import (
    CSINode,
    ObjectError,
    PersistentVolumeClaim,
    StorageClass,
    Taint,
    Toleration,
    compile_selector,
)
from stowplan.testing.builders import make_node, make_object, make_pod


def test_pod_with_everything() -> None:
    pod = (
        make_pod("web-0", "shop")
        .labels({"example.com/a": "1"}, app="web")
        .requests({"example.com/gpu": 1}, cpu="1", ephemeral_storage="1Gi")
        .limits(cpu="2")
        .owned_by("ReplicaSet", "web")
        .created("2024-05-01T10:00:00Z")
        .priority(7)
        .scheduler("mine")
        .gate("wait")
        .tolerate("a")
        .tolerate("b", "c", effect="NoExecute")
        .prefer_nodes(3, "disk", "ssd")
        .pod_affinity("zone", app="db")
        .pod_affinity("zone", weight=5, app="db")
        .pod_anti_affinity("host", {"app": "web"})
        .spread("zone", max_skew=2, hard=False, app="web")
        .nominated("n9")
        .image("web:1")
        .terminating()
        .build()
    )
    assert (pod.key, pod.uid, pod.terminating) == ("shop/web-0", "shop/web-0", True)
    assert pod.labels == {"example.com/a": "1", "app": "web"}
    assert pod.controller is not None
    assert pod.controller.name == "web"
    assert pod.spec.request == {"cpu": 1000, "ephemeral-storage": 2**30, "example.com/gpu": 1}
    assert (pod.spec.priority, pod.spec.scheduler_name, pod.status.nominated_node_name) == (7, "mine", "n9")
    assert pod.spec.containers[0].resources.limits == {"cpu": "2"}
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["wait"]
    assert pod.spec.tolerations == (
        Toleration(key="a", operator="Exists"),
        Toleration(key="b", operator="Equal", value="c", effect="NoExecute"),
    )
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.preferred[0].weight == 3
    assert affinity.pod_affinity is not None
    assert affinity.pod_affinity.required[0].topology_key == "zone"
    assert affinity.pod_affinity.preferred[0].weight == 5
    assert affinity.pod_anti_affinity is not None
    assert compile_selector(affinity.pod_anti_affinity.required[0].label_selector).matches(pod.labels)
    [constraint] = pod.spec.topology_spread_constraints
    assert (constraint.max_skew, constraint.when_unsatisfiable) == (2, "ScheduleAnyway")
    assert [container.image for container in pod.spec.containers] == ["web:1"]


def test_pod_always_has_a_container() -> None:
    assert len(make_pod("a").build().spec.containers) == 1
    assert len(make_pod("a").container().container().build().spec.containers) == 2


def test_placed_pod_runs() -> None:
    pod = make_pod("a").on_node("n").build()
    assert (pod.node_name, pod.status.phase) == ("n", "Running")


def test_node_with_everything() -> None:
    node = (
        make_node("n1")
        .labels(zone="a")
        .annotations(note="x")
        .capacity(cpu=4, pods=10)
        .taint("gpu", "yes", "NoExecute")
        .unschedulable()
        .image("web:1", "web:latest", size=5)
        .features("F")
        .build()
    )
    assert (node.name, node.namespace, node.labels) == ("n1", "", {"zone": "a"})
    assert node.spec.taints == (Taint(key="gpu", value="yes", effect="NoExecute"),)
    assert node.spec.unschedulable
    assert node.status.images[0].names == ("web:1", "web:latest")
    assert node.status.declared_features == ("F",)


def test_object_of_any_kind_by_record_or_name() -> None:
    assert make_object(StorageClass, "fast", provisioner="disk").provisioner == "disk"
    assert make_object("CSINode", "n1") == make_object(CSINode, "n1")
    claim = make_object(
        PersistentVolumeClaim,
        "data",
        labels={"a": "b"},
        metadata={"resourceVersion": "3"},
        spec={"volumeName": "v"},
    )
    assert (claim.key, claim.labels, claim.resource_version) == ("default/data", {"a": "b"}, "3")
    assert claim.spec.volume_name == "v"
    assert make_object(PersistentVolumeClaim, "data", "shop").key == "shop/data"


def test_mistakes_in_tests_are_told_like_those_in_manifests() -> None:
    with pytest.raises(
        ObjectError, match=r"Pod default/a: spec.containers\[0\].resources.requests.cpu: \"lots\""
    ):
        make_pod("a").requests(cpu="lots").build()
    with pytest.raises(ObjectError, match="Frob x: is not a kind"):
        make_object("Frob", "x")
