"""Extended resources that devices stand in for: a device class may say that its devices serve requests for
a resource, on nodes that do not advertise the resource themselves."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from stowplan.cluster import Cluster
from stowplan.objects import DeviceClass

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class serves the resource of this name and its own, whatever else it serves."""

_known: WeakKeyDictionary[Cluster, tuple[int, dict[str, DeviceClass]]] = WeakKeyDictionary()


def backing_classes(cluster: Cluster) -> Mapping[str, DeviceClass]:
    """The device class for each resource that has one; of several for one resource, the newest."""
    classes = cluster.device_classes
    known = _known.get(cluster)
    if known is not None and known[0] == classes.version:
        return known[1]
    found: dict[str, DeviceClass] = {}
    for device_class in sorted(classes, key=lambda one: (-one.created, one.name), reverse=True):
        found[IMPLICIT_PREFIX + device_class.name] = device_class
        if device_class.spec.extended_resource_name:
            found[device_class.spec.extended_resource_name] = device_class
    _known[cluster] = (classes.version, found)
    return found
