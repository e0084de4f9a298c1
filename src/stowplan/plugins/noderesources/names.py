"""What kinds of resources there are, by their names."""

from __future__ import annotations

from functools import lru_cache

from stowplan.cluster.extended import may_be_device

_OF_NODES = ("cpu", "memory", "ephemeral-storage")
_NATIVE = "kubernetes.io/"


def is_extended(name: str) -> bool:
    """Whether a resource is none of Kubernetes' own: devices, licences, whatever a node advertises."""
    return _NATIVE not in name and may_be_device(name)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether a resource beside cpu, memory and ephemeral storage is counted at all."""
    return name.startswith(("hugepages-", "attachable-volumes-")) or _NATIVE in name or is_extended(name)


def is_counted(name: str) -> bool:
    """Whether nodes and pods can have an amount of it."""
    return name in _OF_NODES or is_scalar(name)
