"""A small world of storage, and one question to ask of it: what does the plugin say of every node?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stowplan.cluster import Cluster
from stowplan.framework import CycleState, FilterPlugin, Status
from stowplan.framework.contract import Narrow, PreFilterPlugin
from stowplan.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from stowplan.testing.builders import make_node, make_object
from tests.unit.plugins.judging import statuses

DONE = {"pv.kubernetes.io/bind-completed": "yes"}
ZONE = "topology.kubernetes.io/zone"


def world(*objects: Any, nodes: Mapping[str, Mapping[str, str]]) -> Cluster:
    """Nodes with these labels, and these objects."""
    cluster = Cluster()
    for name, labels in nodes.items():
        cluster.add(make_node(name).labels(labels).build())
    for obj in objects:
        cluster.add(obj)
    return cluster


def a_class(
    name: str, provisioner: str = "csi.x", mode: str | None = "WaitForFirstConsumer", **more: Any
) -> Any:
    fields = {"provisioner": provisioner, **more} | ({} if mode is None else {"volumeBindingMode": mode})
    return make_object(StorageClass, name, **fields)


def a_claim(
    name: str,
    *,
    volume: str = "",
    storage_class: str | None = "wait",
    size: str | None = "5Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str = "Pending",
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """A claim; with a volume it is bound to it."""
    spec = {"accessModes": list(modes), **spec}
    if size is not None:
        spec["resources"] = {"requests": {"storage": size}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if volume:
        spec["volumeName"] = volume
    return make_object(
        PersistentVolumeClaim,
        name,
        metadata={"uid": f"uid-{name}", "resourceVersion": "7", **(metadata or {})},
        annotations={**(DONE if volume else {}), **(annotations or {})},
        spec=spec,
        status={"phase": phase},
    )


def a_volume(
    name: str,
    *,
    storage_class: str = "wait",
    size: str = "10Gi",
    on: Mapping[str, Sequence[str]] | None = None,
    claim: str = "",
    claim_uid: str = "",
    phase: str = "Available",
    modes: Sequence[str] = ("ReadWriteOnce",),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolume:
    """A volume that can be reached from nodes with labels as in `on`; with a claim it is promised to it."""
    spec = {
        "capacity": {"storage": size},
        "storageClassName": storage_class,
        "accessModes": list(modes),
        **spec,
    }
    if on is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions(on)}]}}
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, "uid": claim_uid}
    return make_object(
        PersistentVolume,
        name,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        metadata={"resourceVersion": "3", **(metadata or {})},
        spec=spec,
        status={"phase": phase},
    )


def expressions(labels: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": "In", "values": list(values)} for key, values in labels.items()]


def a_csi_node(
    name: str, limits: Mapping[str, int | None] | None = None, migrated: Sequence[str] = ()
) -> CSINode:
    drivers = [
        {"name": driver, "nodeID": name, **({} if count is None else {"allocatable": {"count": count}})}
        for driver, count in (limits or {}).items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)} if migrated else {}
    return make_object(CSINode, name, annotations=annotations, spec={"drivers": drivers})


def a_driver(name: str, **spec: Any) -> CSIDriver:
    return make_object(CSIDriver, name, spec=spec)


def a_pool(
    name: str, storage_class: str, topology: Mapping[str, Any] | None, **sizes: str
) -> CSIStorageCapacity:
    fields: dict[str, Any] = {"storageClassName": storage_class, **sizes}
    if topology is not None:
        fields["nodeTopology"] = dict(topology)
    return make_object(CSIStorageCapacity, name, **fields)


def an_attachment(name: str, node: str, volume: str | None, attacher: str = "csi.x") -> VolumeAttachment:
    source = {} if volume is None else {"persistentVolumeName": volume}
    return make_object(
        VolumeAttachment, name, spec={"attacher": attacher, "nodeName": node, "source": source}
    )


def pre_filtered(plugin: PreFilterPlugin, pod: Pod, cluster: Cluster) -> Status | Narrow | None:
    return plugin.pre_filter(CycleState(), pod, cluster.nodes)


def judged(plugin: FilterPlugin, pod: Pod, cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """The rejected nodes with the reasons; all forms of the filter must agree."""
    assert isinstance(plugin, PreFilterPlugin)
    answer = pre_filtered(plugin, pod, cluster)
    assert answer is None, answer
    names = cluster.nodes.names
    found = zip(names, statuses(plugin, pod, cluster), strict=True)
    return {name: status.reasons for name, status in found if status is not None}
