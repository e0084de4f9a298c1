from __future__ import annotations

from typing import Any

from stowplan.cluster import Cluster
from stowplan.cluster.extended import extended_resources
from stowplan.objects import Pod
from stowplan.plugins.dynamicresources.extended import device_resources, manifest, needs, special_claim
from stowplan.testing.builders import PodBuilder, make_pod
from tests.unit.plugins.dynamicresources.world import make_class

GPU, NIC = "example.com/gpu", "example.com/nic"


def cluster() -> Cluster:
    made = Cluster()
    made.add(make_class("gpu", extendedResourceName=GPU))
    made.add(make_class("nic", extendedResourceName=NIC))
    return made


def asked(pod: Pod) -> dict[str, tuple[str, int]]:
    """By the name of the request, class and number of devices."""
    found = needs(special_claim(pod), pod.spec, device_resources(pod.spec), extended_resources(cluster()))
    return {
        request.name: (request.exactly.device_class_name, request.exactly.count)
        for request in found.claim.spec.devices.requests
        if request.exactly is not None
    }


def served(pod: Pod) -> list[tuple[str, str, str]]:
    """Container, resource and request."""
    found = needs(special_claim(pod), pod.spec, device_resources(pod.spec), extended_resources(cluster()))
    return [(one.container_name, one.resource_name, one.request_name) for one in found.mappings]


def pod(*containers: dict[str, Any]) -> Pod:
    builder: PodBuilder = make_pod("p")
    for container in containers:
        builder.container(**container)
    return builder.build()


def test_only_resources_that_devices_may_back_count() -> None:
    made = pod({"requests": {"cpu": "1", GPU: "1", "hugepages-2Mi": "2Mi", NIC: "0"}})
    assert device_resources(made.spec) == (GPU,)


def test_each_container_has_requests_named_after_its_place_and_the_resource() -> None:
    made = pod({"requests": {"cpu": "1", GPU: "2", NIC: "1"}}, {"requests": {GPU: "1"}})
    assert asked(made) == {
        "container-0-request-1": ("gpu", 2),
        "container-0-request-2": ("nic", 1),
        "container-1-request-0": ("gpu", 1),
    }
    assert served(made) == [
        ("main-0", GPU, "container-0-request-1"),
        ("main-1", GPU, "container-1-request-0"),
        ("main-0", NIC, "container-0-request-2"),
    ]


def test_init_containers_use_what_later_containers_have_anyway() -> None:
    made = pod({"init": True, "requests": {GPU: "2"}}, {"requests": {GPU: "3"}})
    assert asked(made) == {"container-1-request-0": ("gpu", 3)}
    assert served(made) == [
        ("main-0", GPU, "container-1-request-0"),
        ("init-0", GPU, "container-1-request-0"),
    ]


def test_what_an_init_container_lacks_it_asks_for_and_the_largest_request_serves_all() -> None:
    made = pod(
        {"init": True, "requests": {GPU: "2"}},
        {"init": True, "requests": {GPU: "4"}},
        {"requests": {GPU: "1"}},
    )
    assert asked(made) == {"container-1-request-0": ("gpu", 3), "container-2-request-0": ("gpu", 1)}
    assert served(made) == [
        ("main-0", GPU, "container-2-request-0"),
        ("init-0", GPU, "container-2-request-0"),
        ("init-0", GPU, "container-1-request-0"),
        ("init-1", GPU, "container-2-request-0"),
        ("init-1", GPU, "container-1-request-0"),
    ]


def test_sidecars_keep_their_devices() -> None:
    made = pod(
        {"init": True, "requests": {GPU: "1"}, "restartPolicy": "Always"},
        {"init": True, "requests": {GPU: "1"}},
        {"requests": {GPU: "1"}},
    )
    assert asked(made) == {"container-0-request-0": ("gpu", 1), "container-2-request-0": ("gpu", 1)}


def test_parts_of_a_device_are_not_asked_for() -> None:
    assert asked(pod({"requests": {GPU: "500m"}})) == {}


def test_every_class_is_a_resource_by_its_own_name() -> None:
    made = pod({"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}})
    assert asked(made) == {"container-0-request-0": ("gpu", 1)}


def test_the_claim_is_the_pods() -> None:
    made = pod({"requests": {GPU: "1"}})
    written: Any = manifest(special_claim(made), made)
    assert written["metadata"]["generateName"] == "p-extended-resources-"
    assert written["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made.uid, "controller": True}
    assert written["metadata"]["ownerReferences"] == [owner]
