"""Short ways to write objects in tests.

A builder collects the manifest that one would otherwise write and decodes it at the end, so that every
test's objects have come in the way real ones do:

    make_node("n1").capacity(cpu="4", memory="32Gi", pods=110).taint("gpu").build()
    make_pod("web-0").labels(app="web").requests(cpu="250m").spread("zone", app="web").build()

Whatever has no method of its own is given as it stands in the API: `.spec(hostNetwork=True)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar, overload

from stowplan.objects import (
    KubeObject,
    Node,
    ObjectError,
    Pod,
    Quantity,
    decode_as,
    decode_object,
    decode_pod,
    find_kind,
    known_kinds,
)

KubeObjectT = TypeVar("KubeObjectT", bound=KubeObject)
Manifest = dict[str, Any]


def make_pod(name: str, namespace: str = "default") -> PodBuilder:
    """Start a pod; with no container given it gets one that asks for nothing."""
    return PodBuilder("v1", "Pod", name, namespace)


def make_node(name: str) -> NodeBuilder:
    """Start a node; it offers nothing until it is given a capacity."""
    return NodeBuilder("v1", "Node", name)


@overload
def make_object(
    kind: type[KubeObjectT], name: str, namespace: str | None = None, **fields: Any
) -> KubeObjectT: ...
@overload
def make_object(kind: str, name: str, namespace: str | None = None, **fields: Any) -> KubeObject: ...
def make_object(
    kind: type[KubeObjectT] | str, name: str, namespace: str | None = None, **fields: Any
) -> KubeObject:
    """An object of any kind, with fields as in its manifest: `make_object(Service, "web", spec={...})`.

    `labels` and `annotations` go into the metadata, as does all that is in `metadata`. Objects of kinds
    that live in namespaces are in `default` unless said otherwise.
    """
    if isinstance(kind, str):
        known = find_kind(kind)
    else:
        known = next((candidate for candidate in known_kinds() if candidate.record is kind), None)
    if known is None:
        raise ObjectError(f"{kind} {name}: is not a kind of object that is known here")
    if namespace is None:
        namespace = "default" if known.namespaced else ""
    manifest = _manifest(known.api_version, known.name, name, namespace)
    for part in ("labels", "annotations"):
        if part in fields:
            manifest["metadata"][part] = fields.pop(part)
    manifest["metadata"] |= fields.pop("metadata", {})
    manifest |= fields
    return decode_object(manifest) if isinstance(kind, str) else decode_as(kind, manifest)


class ObjectBuilder:
    """What pods and nodes have in common: a manifest that grows."""

    def __init__(self, api_version: str, kind: str, name: str, namespace: str = "") -> None:
        self.manifest = _manifest(api_version, kind, name, namespace)

    def metadata(self, **fields: Any) -> Self:
        """Set fields of the metadata, named as in the API."""
        self.manifest["metadata"] |= fields
        return self

    def spec(self, **fields: Any) -> Self:
        """Set fields of the spec, named as in the API."""
        self.manifest["spec"] |= fields
        return self

    def status(self, **fields: Any) -> Self:
        """Set fields of the status, named as in the API."""
        self.manifest["status"] |= fields
        return self

    def labels(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add labels."""
        self.manifest["metadata"].setdefault("labels", {}).update({**(labels or {}), **more})
        return self

    def annotations(self, annotations: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add annotations."""
        self.manifest["metadata"].setdefault("annotations", {}).update({**(annotations or {}), **more})
        return self

    def uid(self, uid: str) -> Self:
        """Set the uid, which is `namespace/name` otherwise."""
        return self.metadata(uid=uid)

    def created(self, time: str) -> Self:
        """Set when the object was made, as `2024-05-01T10:00:00Z`."""
        return self.metadata(creationTimestamp=time)

    def terminating(self, time: str = "2024-05-01T10:00:00Z") -> Self:
        """Mark the object as being deleted."""
        return self.metadata(deletionTimestamp=time)


class PodBuilder(ObjectBuilder):
    """A pod in the making."""

    def build(self) -> Pod:
        """The pod."""
        self._first_container()
        return decode_pod(self.manifest)

    def owned_by(self, kind: str, name: str, api_version: str = "apps/v1", uid: str = "") -> Self:
        """Name the controller of the pod."""
        owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or name}
        return self.metadata(ownerReferences=[{**owner, "controller": True}])

    def container(
        self, *, init: bool = False, requests: Mapping[str, Quantity] | None = None, **fields: Any
    ) -> Self:
        """Add a container, or an init container; `restartPolicy="Always"` makes that a sidecar."""
        containers = self.manifest["spec"].setdefault("initContainers" if init else "containers", [])
        container: Manifest = {"name": f"{'init' if init else 'main'}-{len(containers)}", **fields}
        if requests is not None:
            container.setdefault("resources", {})["requests"] = dict(requests)
        containers.append(container)
        return self

    def requests(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Add to what the first container asks for."""
        return self._amounts("requests", _resources(resources, more))

    def limits(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Add to what the first container may use at most. An API server makes requests of limits that have
        none beside them; here they are given."""
        return self._amounts("limits", _resources(resources, more))

    def _amounts(self, field: str, amounts: Mapping[str, Quantity]) -> Self:
        self._first_container().setdefault("resources", {}).setdefault(field, {}).update(amounts)
        return self

    def host_port(self, port: int, protocol: str = "TCP", ip: str = "") -> Self:
        """Take a port of the node, by the first container."""
        taken = {"hostPort": port, "containerPort": port, "protocol": protocol, "hostIP": ip}
        self._first_container().setdefault("ports", []).append(taken)
        return self

    def image(self, image: str) -> Self:
        """Set the image of the first container."""
        self._first_container()["image"] = image
        return self

    def on_node(self, name: str) -> Self:
        """Place the pod."""
        return self.spec(nodeName=name).status(phase="Running")

    def nominated(self, node: str) -> Self:
        """Nominate the pod to a node."""
        return self.status(nominatedNodeName=node)

    def priority(self, priority: int) -> Self:
        """Set the priority."""
        return self.spec(priority=priority)

    def scheduler(self, name: str) -> Self:
        """Set the name of the scheduler that is to place the pod."""
        return self.spec(schedulerName=name)

    def gate(self, *names: str) -> Self:
        """Hold the pod back by scheduling gates."""
        return self._add("schedulingGates", *({"name": name} for name in names))

    def tolerate(self, key: str = "", value: str | None = None, effect: str = "") -> Self:
        """Tolerate a taint: with this value, or with any."""
        toleration = {"key": key, "effect": effect, "operator": "Exists"}
        if value is not None:
            toleration |= {"operator": "Equal", "value": value}
        return self._add("tolerations", toleration)

    def node_selector(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Demand labels of the node."""
        self.manifest["spec"].setdefault("nodeSelector", {}).update({**(labels or {}), **more})
        return self

    def affinity(self, **affinity: Any) -> Self:
        """Set the affinity as it stands in the API: `.affinity(nodeAffinity={...})`."""
        self.manifest["spec"].setdefault("affinity", {}).update(affinity)
        return self

    def require_nodes(self, key: str, *values: str, operator: str = "In") -> Self:
        """Add a term of which one must match: nodes whose label is one of the values."""
        required = self._affinity("nodeAffinity").setdefault(_REQUIRED, {"nodeSelectorTerms": []})
        required["nodeSelectorTerms"].append({"matchExpressions": [_expression(key, operator, values)]})
        return self

    def prefer_nodes(self, weight: int, key: str, *values: str, operator: str = "In") -> Self:
        """Like nodes whose label is one of the values."""
        preference = {"matchExpressions": [_expression(key, operator, values)]}
        preferred = self._affinity("nodeAffinity").setdefault(_PREFERRED, [])
        preferred.append({"weight": weight, "preference": preference})
        return self

    def pod_affinity(
        self, topology_key: str, labels: Mapping[str, str] | None = None, /, weight: int = 0, **more: str
    ) -> Self:
        """Demand (or with a weight: like) to be where pods with these labels are."""
        return self._near("podAffinity", topology_key, {**(labels or {}), **more}, weight)

    def pod_anti_affinity(
        self, topology_key: str, labels: Mapping[str, str] | None = None, /, weight: int = 0, **more: str
    ) -> Self:
        """Refuse (or with a weight: dislike) to be where pods with these labels are."""
        return self._near("podAntiAffinity", topology_key, {**(labels or {}), **more}, weight)

    def spread(
        self,
        topology_key: str,
        labels: Mapping[str, str] | None = None,
        /,
        *,
        max_skew: int = 1,
        hard: bool = True,
        **more: str,
    ) -> Self:
        """Spread pods with these labels over the domains of a topology key."""
        return self._add(
            "topologySpreadConstraints",
            {
                "maxSkew": max_skew,
                "topologyKey": topology_key,
                "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
                "labelSelector": {"matchLabels": {**(labels or {}), **more}},
            },
        )

    def pvc(self, *claims: str) -> Self:
        """Mount claims; the volumes are named after them."""
        return self._add(
            "volumes", *({"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims)
        )

    def volume(self, name: str, **source: Any) -> Self:
        """Mount a volume given as in the API: `.volume("disk", csi={"driver": "d"})`."""
        return self._add("volumes", {"name": name, **source})

    def _near(self, kind: str, topology_key: str, labels: Mapping[str, str], weight: int) -> Self:
        term = {"topologyKey": topology_key, "labelSelector": {"matchLabels": dict(labels)}}
        if weight:
            self._affinity(kind).setdefault(_PREFERRED, []).append(
                {"weight": weight, "podAffinityTerm": term}
            )
        else:
            self._affinity(kind).setdefault(_REQUIRED, []).append(term)
        return self

    def _affinity(self, kind: str) -> Manifest:
        affinity: Manifest = self.manifest["spec"].setdefault("affinity", {}).setdefault(kind, {})
        return affinity

    def _first_container(self) -> Manifest:
        if not self.manifest["spec"].get("containers"):
            self.container()
        first: Manifest = self.manifest["spec"]["containers"][0]
        return first

    def _add(self, part: str, *items: Manifest) -> Self:
        self.manifest["spec"].setdefault(part, []).extend(items)
        return self


class NodeBuilder(ObjectBuilder):
    """A node in the making."""

    def build(self) -> Node:
        """The node."""
        return decode_as(Node, self.manifest)

    def capacity(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Add to what the node has, all of it for pods."""
        added = _resources(resources, more)
        self.manifest["status"].setdefault("capacity", {}).update(added)
        return self.allocatable(added)

    def allocatable(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Set what pods may use, where that is less than the capacity."""
        self.manifest["status"].setdefault("allocatable", {}).update(_resources(resources, more))
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """Add a taint."""
        taint = {"key": key, "value": value, "effect": effect}
        self.manifest["spec"].setdefault("taints", []).append(taint)
        return self

    def unschedulable(self) -> Self:
        """Cordon the node."""
        return self.spec(unschedulable=True)

    def image(self, *names: str, size: int) -> Self:
        """Put an image on the node, under these names."""
        self.manifest["status"].setdefault("images", []).append({"names": list(names), "sizeBytes": size})
        return self

    def features(self, *names: str) -> Self:
        """Have the node declare features."""
        self.manifest["status"].setdefault("declaredFeatures", []).extend(names)
        return self


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _manifest(api_version: str, kind: str, name: str, namespace: str) -> Manifest:
    metadata = {"name": name, "uid": f"{namespace}/{name}" if namespace else name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}, "status": {}}


def _resources(resources: Mapping[str, Quantity] | None, more: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Python names have no dashes: `ephemeral_storage` is ephemeral-storage."""
    return {**(resources or {}), **{name.replace("_", "-"): amount for name, amount in more.items()}}


def _expression(key: str, operator: str, values: Sequence[str]) -> Manifest:
    return {"key": key, "operator": operator, "values": list(values)}
