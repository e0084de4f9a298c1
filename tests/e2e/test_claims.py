"""Pods with claims of devices: allocated, shared, given back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.stage import RESOURCE, Stage, eventually
from tests.e2e.test_queueing import Scenario, play
from tests.e2e.test_run import PODS

pytestmark = pytest.mark.control_plane

DEVICE_CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"


def make_class(stage: Stage, name: str = "gpu", **spec: Any) -> None:
    stage.make(f"{RESOURCE}/deviceclasses", name, spec=spec)


def make_devices(stage: Stage, node: str, **models: str) -> None:
    """A slice with a device for each name, of that model."""
    devices = [{"name": name, "attributes": {"model": {"string": model}}} for name, model in models.items()]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    stage.make(f"{RESOURCE}/resourceslices", f"gpus-of-{node}", spec=spec)


def make_claim(stage: Stage, name: str, *, where: str = "", count: int = 1, **metadata: Any) -> None:
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "count": count}
    if where:
        exactly["selectors"] = [{"cel": {"expression": where}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    stage.make(DEVICE_CLAIMS, name, spec=spec, metadata=metadata)


def claiming(name: str) -> list[dict[str, str]]:
    return [{"name": "gpu", "resourceClaimName": name}]


def status_of(stage: Stage, claim: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.api.get(f"{DEVICE_CLAIMS}/{claim}").get("status", {})
    return found


def test_the_node_with_the_right_device(stage: Stage) -> None:
    for name in ("none", "old", "new"):
        stage.node(name)
    stage.running_pod("tenant", "new", cpu="2")
    make_class(stage, selectors=[{"cel": {"expression": f'device.driver == "{DRIVER}"'}}])
    make_devices(stage, "old", a="m1")
    make_devices(stage, "new", a="m1", b="m2")
    make_claim(stage, "mine", where=f'device.attributes["{DRIVER}"].model == "m2"')
    stage.settle()
    pod = stage.pod("target", resourceClaims=claiming("mine"))
    assert stage.placed("target") == "new"

    claim = stage.api.get(f"{DEVICE_CLAIMS}/mine")
    result = claim["status"]["allocation"]["devices"]["results"][0]
    assert (result["driver"], result["pool"], result["device"]) == (DRIVER, "new", "b")
    (user,) = claim["status"]["reservedFor"]
    assert user == {"resource": "pods", "name": "target", "uid": pod["metadata"]["uid"]}
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


def test_pods_that_share_a_claim_share_a_node(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.node(name)
        stage.running_pod(f"on-{name}", name, cpu="1")
    make_class(stage)
    make_devices(stage, "one", a="m1")
    make_devices(stage, "two", a="m1")
    make_claim(stage, "ours")
    stage.settle()
    for number in range(3):
        stage.pod(f"p{number}", cpu="1", resourceClaims=claiming("ours"))
    assert len({stage.placed(f"p{number}") for number in range(3)}) == 1
    assert len(status_of(stage, "ours")["reservedFor"]) == 3


def test_no_device_is_given_twice(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.node(name)
    make_class(stage)
    make_devices(stage, "one", a="m1", b="m1")
    make_devices(stage, "two", a="m1", b="m1", c="m1")
    for number in range(6):
        make_claim(stage, f"claim-{number}")
    stage.settle()
    for number in range(6):
        stage.pod(f"p{number}", resourceClaims=claiming(f"claim-{number}"))
    names = [f"p{number}" for number in range(6)]
    stage.placed_in_all(names, ["", "one", "one", "two", "two", "two"])
    stage.refused_in_all(1)
    allocations = [status_of(stage, f"claim-{number}").get("allocation") for number in range(6)]
    given = [
        (result["pool"], result["device"])
        for allocation in filter(None, allocations)
        for result in allocation["devices"]["results"]
    ]
    assert len(given) == len(set(given)) == 5


def test_all_devices_of_a_claim_or_none(stage: Stage) -> None:
    stage.node("one")
    stage.node("two")
    make_class(stage)
    make_devices(stage, "one", a="m1")
    make_devices(stage, "two", a="m1", b="m1")
    make_claim(stage, "pair", count=2)
    make_claim(stage, "three", count=3)
    stage.settle()
    stage.pod("too-many", resourceClaims=claiming("three"))
    stage.refused("too-many", "0/2 nodes are available: 2 cannot allocate all claims.")
    assert "allocation" not in status_of(stage, "three")
    stage.pod("target", resourceClaims=claiming("pair"))
    assert stage.placed("target") == "two"


def test_devices_behind_a_resource(stage: Stage) -> None:
    """The pod asks for example.com/gpu; the scheduler makes a claim for it."""
    stage.node("one")
    stage.node("two")
    make_class(stage, extendedResourceName="example.com/gpu")
    make_devices(stage, "two", a="m1")
    stage.settle()
    stage.pod("target", requests={"example.com/gpu": "1"})
    assert stage.placed("target") == "two"
    status = stage.get_pod("target")["status"]["extendedResourceClaimStatus"]
    stage.adopt(f"{DEVICE_CLAIMS}/{status['resourceClaimName']}")
    claim = status_of(stage, status["resourceClaimName"])
    assert claim["allocation"]["devices"]["results"][0]["pool"] == "two"


def test_devices_of_a_deleted_pod_are_free_once_the_claim_is(stage: Stage) -> None:
    stage.node("one")
    make_class(stage)
    make_devices(stage, "one", a="m1")
    for name in ("first", "second"):
        make_claim(stage, name)
    stage.settle()
    stage.pod("first", resourceClaims=claiming("first"))
    assert stage.placed("first") == "one"
    stage.pod("second", resourceClaims=claiming("second"))
    stage.refused("second", "1 cannot allocate all claims.")
    stage.delete_pod("first")
    # As the claim controller does once nobody uses it.
    done = {"status": {"reservedFor": None, "allocation": None}}
    stage.api.patch(f"{DEVICE_CLAIMS}/first/status", done)
    assert stage.placed("second") == "one"


def its_claim_is_made_from_a_template(stage: Stage) -> Iterator[str]:
    stage.node("one")
    make_class(stage)
    make_devices(stage, "one", a="m1")
    pod = stage.pod("waits", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])
    yield ""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "waits", "uid": pod["metadata"]["uid"]}
    make_claim(stage, "waits-gpu", ownerReferences=[owner | {"controller": True}])
    yield "the pod does not say yet which claim is its own"
    statuses = [{"name": "gpu", "resourceClaimName": "waits-gpu"}]
    stage.api.patch(f"{PODS}/waits/status", {"status": {"resourceClaimStatuses": statuses}})
    yield "one"


def test_an_unused_claim_moves_to_a_node_that_can_take_the_pod(stage: Stage) -> None:
    """The claim has a device of a node that is too small; nobody uses it, so it is allocated anew."""
    stage.node("one", cpu="1")
    make_class(stage)
    make_devices(stage, "one", a="m1")
    make_claim(stage, "mine")
    stage.settle()
    stage.pod("first", resourceClaims=claiming("mine"))
    assert stage.placed("first") == "one"
    stage.delete_pod("first")
    stage.api.patch(f"{DEVICE_CLAIMS}/mine/status", {"status": {"reservedFor": None}})
    stage.node("two")
    make_devices(stage, "two", a="m1")
    stage.settle()
    stage.pod("second", cpu="2", resourceClaims=claiming("mine"))
    assert stage.placed("second") == "two"
    assert status_of(stage, "mine")["allocation"]["devices"]["results"][0]["pool"] == "two"


SCENARIOS: tuple[Scenario, ...] = (its_claim_is_made_from_a_template,)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_it_is_tried_again_when_it_may_help_and_only_then(stage: Stage, scenario: Scenario) -> None:
    play(stage, scenario)


def test_a_pod_whose_claim_is_missing_is_not_tried(stage: Stage) -> None:
    stage.node("one")
    before = stage.attempts()
    stage.pod("early", resourceClaims=claiming("late"))
    eventually(lambda: stage.waiting("gated") == 1)
    assert stage.attempts() == before
