"""Extended resources that devices back: a class of devices may be asked for as if it were a resource.

A class names such a resource in its spec; besides, every class can be asked for as
`deviceclass.resource.kubernetes.io/<name of the class>`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from weakref import WeakKeyDictionary

from stowplan.cluster.cluster import Cluster
from stowplan.objects import DeviceClass
from stowplan.objects.names import label_key_problem

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@lru_cache(maxsize=4096)
def may_be_device(resource: str) -> bool:
    """Whether the name of a resource is of a kind that a class of devices can stand behind."""
    if resource.startswith(CLASS_PREFIX):
        return True
    if "/" not in resource or "kubernetes.io/" in resource or resource.startswith("requests."):
        return False
    return not label_key_problem(f"requests.{resource}")


class ExtendedResources:
    """Which class stands behind a resource. Of several that name the same one, the newest does."""

    def __init__(self, cluster: Cluster) -> None:
        self._classes = cluster.device_classes
        self._version = -1
        self._known: dict[str, DeviceClass] = {}

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class behind a resource, None for one that is no device."""
        if not self._classes:
            return None
        if self._version != self._classes.version:
            self._version = self._classes.version
            self._known = _map(self._classes)
        return self._known.get(resource)


def _map(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """As upstream finds it when it starts: class after class by name. One that names the resource of a
    newer class it has met already is passed over, with its own name as well."""
    found: dict[str, DeviceClass] = {}
    for one in sorted(classes, key=lambda one: one.name):
        resource = one.spec.extended_resource_name
        if resource is not None:
            rival = found.get(resource)
            if rival is not None and rival.created >= one.created:
                continue
            found[resource] = one
        found[f"{CLASS_PREFIX}{one.name}"] = one
    return found


_of: WeakKeyDictionary[Cluster, ExtendedResources] = WeakKeyDictionary()


def extended_resources(cluster: Cluster) -> ExtendedResources:
    """The one answer for all who ask about this cluster."""
    known = _of.get(cluster)
    if known is None:
        known = _of[cluster] = ExtendedResources(cluster)
    return known
