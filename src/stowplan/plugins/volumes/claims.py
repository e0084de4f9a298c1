"""What all volume plugins need to know of claims: their names, classes, states, and how to speak of them."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.objects import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from stowplan.objects.quantity import value

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT_FOR_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

CLAIM = "persistentvolumeclaim"
VOLUME = "persistentvolume"
STORAGE_CLASS = "storageclass.storage.k8s.io"


class VolumeError(ValueError):
    """Something about volumes that keeps a pod from being decided at all."""


def not_found(kind: str, name: str) -> str:
    """The API's sentence for an object that does not exist."""
    return f'{kind} "{name}" not found'


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a volume of a pod, None when there is none. An ephemeral volume has a claim of its
    own, named after the pod and the volume."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.name}-{volume.name}"
    return None


def is_ephemeral(volume: Volume) -> bool:
    return volume.persistent_volume_claim is None and volume.ephemeral is not None


def claim_uses(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The claims of a pod in order, and of each whether it belongs to an ephemeral volume."""
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is not None:
            yield name, is_ephemeral(volume)


def named_claims(pod: Pod) -> list[str]:
    """The claims that a pod names itself, in order: not those of its ephemeral volumes."""
    return [name for name, ephemeral in claim_uses(pod) if not ephemeral]


def uses_claim(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """Hint: the claim that was added or changed is one of the pod's."""
    return new.namespace == pod.namespace and any(name == new.name for name, _ in claim_uses(pod))


def names_claim(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """Hint: the claim that was added or changed is one that the pod names itself."""
    return new.namespace == pod.namespace and new.name in named_claims(pod)


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim is not that of the pod's ephemeral volume, though it has the right name."""
    owner = claim.controller
    if owner is not None and owner.uid == pod.uid and claim.namespace == pod.namespace:
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for, "" for none."""
    return claim.annotations.get(BETA_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """The storage class that a volume belongs to, "" for none."""
    return volume.annotations.get(BETA_CLASS, volume.spec.storage_class_name)


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the volume controller has finished with a claim."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.annotations


def requested_size(claim: PersistentVolumeClaim) -> int | None:
    """How much storage a claim asks for, None when it does not say."""
    asked = claim.spec.resources.requests.get("storage")
    return None if asked is None else value(asked)
