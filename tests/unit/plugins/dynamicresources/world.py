"""Small worlds of devices: slices, classes, claims and pods in as few words as a test needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stowplan.cluster import Cluster
from stowplan.framework.contract import CycleState
from stowplan.objects import DeviceClass, Node, Pod, ResourceClaim, ResourceSlice
from stowplan.plugins.dynamicresources.plugin import DynamicResources
from stowplan.plugins.dynamicresources.requests import ClaimPlan, plan_claim
from stowplan.plugins.dynamicresources.results import build_results
from stowplan.plugins.dynamicresources.search import Search
from stowplan.plugins.dynamicresources.sites import Sites
from stowplan.plugins.dynamicresources.state import AllocatedState
from stowplan.testing.builders import make_node, make_object, make_pod

DRIVER = "gpu.example.com"
CLASS = "gpu"


def device(name: str, /, attributes: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A device; attributes are given as plain values."""
    kinds = {bool: "bool", int: "int", str: "string"}
    typed = {key: {kinds[type(value)]: value} for key, value in (attributes or {}).items()}
    return {"name": name, **({"attributes": typed} if typed else {}), **fields}


def make_slice(
    name: str,
    devices: Sequence[dict[str, Any]] = (),
    *,
    pool: str = "pool",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:
    """A slice; it is on all nodes unless said otherwise."""
    where = {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"} & spec.keys()
    pool_spec = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return make_object(
        ResourceSlice,
        name,
        spec={
            "driver": driver,
            "pool": pool_spec,
            "devices": list(devices),
            **({} if where else {"allNodes": True}),
            **spec,
        },
    )


def make_class(name: str = CLASS, *expressions: str, **spec: Any) -> DeviceClass:
    return make_object(DeviceClass, name, spec={"selectors": selectors(*expressions), **spec})


def selectors(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def exactly(count: int = 1, *expressions: str, device_class: str = CLASS, **fields: Any) -> dict[str, Any]:
    """What a plain request asks for."""
    asked = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {**asked, "selectors": selectors(*expressions), **fields}


def every(*expressions: str, **fields: Any) -> dict[str, Any]:
    """All devices."""
    asked = exactly(0, *expressions, **fields)
    return {**asked, "allocationMode": "All"}


def request(name: str = "r", /, count: int = 1, *expressions: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "exactly": exactly(count, *expressions, **fields)}


def first_of(name: str, **alternatives: dict[str, Any]) -> dict[str, Any]:
    """A request with alternatives, in the order given."""
    return {"name": name, "firstAvailable": [{"name": key, **one} for key, one in alternatives.items()]}


def make_claim(
    name: str = "claim",
    *requests: dict[str, Any],
    constraints: Sequence[dict[str, Any]] = (),
    config: Sequence[dict[str, Any]] = (),
    allocation: Mapping[str, Any] | None = None,
    reserved_for: Sequence[str] = (),
    **metadata: Any,
) -> ResourceClaim:
    status: dict[str, Any] = {
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved_for]
    }
    if allocation is not None:
        status["allocation"] = dict(allocation)
    devices = {
        "requests": list(requests) or [request()],
        "constraints": list(constraints),
        "config": list(config),
    }
    metadata = {"uid": f"uid-{name}", "resourceVersion": "1", **metadata}
    return make_object(ResourceClaim, name, spec={"devices": devices}, status=status, metadata=metadata)


def allocation(*devices: str, node: str = "", **result: Any) -> dict[str, Any]:
    """An allocation of devices of `pool`, usable from everywhere or from one node."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": "pool", "device": name, **result} for name in devices
    ]
    made: dict[str, Any] = {"devices": {"results": results}}
    if node:
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        made["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return made


def claiming_pod(name: str, *claims: str) -> Pod:
    """A pod that names claims."""
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return make_pod(name).spec(resourceClaims=entries).build()


def make_cluster(*objects: Any, nodes: Sequence[str] = ("n1",)) -> Cluster:
    cluster = Cluster()
    for name in nodes:
        cluster.add(make_node(name).build())
    for obj in objects:
        cluster.add(obj)
    return cluster


class Bench:
    """The allocator without a plugin: slices, classes and what is allocated."""

    def __init__(self, *slices: ResourceSlice, classes: Sequence[DeviceClass] = ()) -> None:
        self.sites = Sites()
        for one in slices:
            self.sites.change(None, one)
        self.classes = {one.name: one for one in classes or [make_class()]}
        self.state = AllocatedState()
        self.node: Node = make_node("n1").build()

    def plans(self, *claims: ResourceClaim) -> list[ClaimPlan]:
        return [plan_claim(claim, self.classes.get) for claim in claims]

    def find(self, *claims: ResourceClaim, node: Node | None = None) -> list[list[str]] | None:
        """The names of the devices for each claim: `request device`, or None."""
        found = Search(self.plans(*claims), self.sites.site(node or self.node), self.state).run()
        if found is None:
            return None
        return [[f"{entry.request.full_name} {entry.id[2]}" for entry in chosen] for chosen in found.devices]

    def allocate(self, *claims: ResourceClaim) -> list[Any]:
        """What is written into the claims; it counts as allocated from then on."""
        found = Search(self.plans(*claims), self.sites.site(self.node), self.state).run()
        assert found is not None
        results = build_results(found, self.node.name)
        for result in results:
            self.state.add(result)
        return results


def reasons(plugin: DynamicResources, cluster: Cluster, pod: Pod) -> dict[str, str]:
    """Why nodes are rejected, by name; the message of PreFilter under an empty name."""
    state = CycleState()
    status = plugin.pre_filter(state, pod, cluster.nodes)
    if status is not None:
        return {"": status.message}
    verdict = plugin.filter(state, pod, cluster.nodes)
    names = cluster.nodes.names
    return {
        names[i]: verdict.status_of(code).message for i, code in enumerate(verdict.codes.tolist()) if code
    }
