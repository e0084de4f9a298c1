"""What kinds of resources there are, by their names."""

from __future__ import annotations

from functools import lru_cache

from stowplan.objects.names import label_key_problem

_OF_NODES = ("cpu", "memory", "ephemeral-storage")
_NATIVE = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether a resource is none of Kubernetes' own: devices, licences, whatever a node advertises."""
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_problem(_QUOTA_PREFIX + name)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether a resource beside cpu, memory and ephemeral storage is counted at all."""
    return name.startswith(("hugepages-", "attachable-volumes-")) or _NATIVE in name or is_extended(name)


def is_counted(name: str) -> bool:
    """Whether nodes and pods can have an amount of it."""
    return name in _OF_NODES or is_scalar(name)
