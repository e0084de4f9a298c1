"""Extended resources that devices back, as a claim of the scheduler's own.

A pod that asks for such a resource needs no claim. On a node that does not offer the resource itself, the
scheduler makes one for it: a request for every container and resource, where an init container may use
what containers after it will have anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from stowplan.cluster.extended import ExtendedResources, may_be_device
from stowplan.objects import Container, OwnerReference, Pod, PodSpec, ResourceClaim, nano_value
from stowplan.objects.devices import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaimSpec
from stowplan.objects.pod import ExtendedResourceRequestMapping
from stowplan.objects.requests import is_sidecar
from stowplan.plugins.dynamicresources.requests import EXACT_COUNT

SPECIAL_NAME = "<extended-resources>"
"""The name of the claim until it is written: none that an object can have."""
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
_NANO = 10**9


def device_resources(spec: PodSpec) -> tuple[str, ...]:
    """The resources a pod asks for that devices may back, by name."""
    return tuple(sorted(name for name, amount in spec.request.items() if amount and may_be_device(name)))


def special_claim(pod: Pod) -> ResourceClaim:
    """The claim for a pod's extended resources, as long as it is only thought of."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    return ResourceClaim(
        name=SPECIAL_NAME,
        namespace=pod.namespace,
        uid=f"{pod.uid or pod.key}/{SPECIAL_NAME}",
        annotations={ANNOTATION: "true"},
        owners=(owner,),
    )


class Needs(NamedTuple):
    """What has to be claimed on some nodes, and which request serves which resource of which container."""

    claim: ResourceClaim
    mappings: tuple[ExtendedResourceRequestMapping, ...]


def needs(claim: ResourceClaim, spec: PodSpec, resources: Sequence[str], classes: ExtendedResources) -> Needs:
    """The claim for those resources that must come from devices."""
    requests: list[DeviceRequest] = []
    mappings: list[ExtendedResourceRequestMapping] = []
    for resource in sorted(resources):
        device_class = classes.class_of(resource)
        if device_class is not None:
            some = _Resource(spec, resource, device_class.name)
            requests += some.requests
            mappings += some.mappings
    requests.sort(key=lambda request: request.name)
    wanted = ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests)))
    return Needs(msgspec.structs.replace(claim, spec=wanted), tuple(mappings))


class _Resource:
    """The requests for one resource, and who uses them."""

    def __init__(self, spec: PodSpec, resource: str, class_name: str) -> None:
        self._resource = resource
        self._class_name = class_name
        self.requests: list[DeviceRequest] = []
        self.mappings: list[ExtendedResourceRequestMapping] = []
        containers = (*spec.init_containers, *spec.containers)
        passing = [i for i, one in enumerate(spec.init_containers) if not is_sidecar(one)]
        lasting: dict[int, DeviceRequest] = {}
        for i, container in enumerate(containers):
            if i not in passing:
                request = self._request(i, container, ())
                if request is not None:
                    lasting[i] = request
        before = len(self.mappings)
        own: list[DeviceRequest] = []
        for i in passing:
            later = [request for j, request in lasting.items() if j >= i]
            request = self._request(i, containers[i], later)
            if request is not None:
                own.append(request)
        if own:
            self._share_largest(own, before)
        self.requests += lasting.values()

    def _request(
        self, number: int, container: Container, usable: Sequence[DeviceRequest]
    ) -> DeviceRequest | None:
        """A request for what a container needs beyond the requests that it can use."""
        amounts = container.resources.requests
        nano = nano_value(amounts.get(self._resource, 0))
        if not nano or nano % _NANO:
            return None
        missing = nano // _NANO
        for request in usable:
            self._map(container, request.name)
            missing -= _count(request)
            if missing <= 0:
                return None
        name = f"container-{number}-request-{sorted(amounts).index(self._resource)}"
        self._map(container, name)
        exactly = ExactDeviceRequest(
            device_class_name=self._class_name, allocation_mode=EXACT_COUNT, count=missing
        )
        return DeviceRequest(name=name, exactly=exactly)

    def _map(self, container: Container, request: str) -> None:
        self.mappings.append(
            ExtendedResourceRequestMapping(
                container_name=container.name, resource_name=self._resource, request_name=request
            )
        )

    def _share_largest(self, own: Sequence[DeviceRequest], start: int) -> None:
        """Init containers run one after the other: the largest request serves them all."""
        largest = max(own, key=_count)
        self.requests.append(largest)
        others = {request.name for request in own} - {largest.name}
        for i in range(start, len(self.mappings)):
            if self.mappings[i].request_name in others:
                self.mappings[i] = msgspec.structs.replace(self.mappings[i], request_name=largest.name)


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly else 0


def manifest(claim: ResourceClaim, pod: Pod) -> Mapping[str, object]:
    """The claim as it is created; the API server finds a name for it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": claim.namespace,
            "annotations": dict(claim.annotations),
            "ownerReferences": [msgspec.to_builtins(owner) for owner in claim.owners],
        },
        "spec": msgspec.to_builtins(claim.spec),
    }
