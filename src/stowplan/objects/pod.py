"""Pods as a scheduler reads them.

Thousands of pods come from one template. What scheduling reads of their spec is kept as one shared
`PodSpec`, and everything that follows from a spec alone is computed once, on that shared object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from stowplan.objects import requests, selectors
from stowplan.objects.base import Int32, Int64, Record, ResourceList, derived
from stowplan.objects.meta import Condition, KubeObject, LabelSelector, NodeSelector, NodeSelectorTerm, Time
from stowplan.objects.volumes import Volume

DEFAULT_SCHEDULER_NAME = "default-scheduler"


class ContainerPort(Record, frozen=True):
    """A port of a container; scheduling minds those with a host port."""

    host_port: Int32 = 0
    container_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerClaim(Record, frozen=True):
    """A container's use of one of the pod's resource claims, or of one request of it."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Record, frozen=True):
    """What is asked for (requests) and the bounds (limits)."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerClaim, ...] = ()


class RestartRule(Record, frozen=True):
    """What to do when a container exits in a certain way."""

    action: str = ""


class Container(Record, frozen=True):
    """A container or init container; an init container that restarts always is a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()


class Toleration(Record, frozen=True):
    """Lets a pod live with the taints it describes; empty key or effect stand for any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class PreferredSchedulingTerm(Record, frozen=True):
    """Nodes that are liked, and how much."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Record, frozen=True):
    """Nodes a pod must (required) or would like to (preferred) be on."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Record, frozen=True):
    """Pods (by labels and namespaces) in whose topology domain to be, or not to be."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Record, frozen=True):
    """A term that is liked, and how much."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Record, frozen=True):
    """Pods to be near to; under `pod_anti_affinity`, pods to keep away from."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Record, frozen=True):
    """Where a pod must or would like to be, by nodes and by other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Record, frozen=True):
    """How evenly matching pods must be spread over the domains of a topology key."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Record, frozen=True):
    """While a pod has gates, it is not scheduled."""

    name: str = ""


class PodResourceClaim(Record, frozen=True):
    """A claim for devices, by name or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(Record, frozen=True):
    """The group of pods that this pod is scheduled with."""

    pod_group_name: str | None = None


class HostPort(NamedTuple):
    """A port of the node that a pod takes, on one address or (0.0.0.0) on all."""

    protocol: str
    ip: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether both cannot be taken on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip)


class PodSpec(Record, frozen=True, eq=False, dict=True, weakref=True, gc=True):
    """What scheduling reads of a pod's spec; pods of one shape share one object.

    Equality is identity, so a spec is a cheap cache key. Properties that are pure functions of the spec
    are cached on it, amounts such that nobody can change them. The node of a pod is no part of its shape and
    stands in `Pod.node_name`.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    priority: Int32 = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    node_selector: Mapping[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    runtime_class_name: str | None = None
    scheduling_group: SchedulingGroup | None = None
    termination_grace_period_seconds: Int64 | None = None

    @derived
    def template(self) -> bytes:
        """All of the spec but amounts of resources: equal for pods that differ in nothing else."""
        return _without_amounts(self)

    @derived
    def request(self) -> Mapping[str, int]:
        """What the pod needs to fit on a node: cpu in thousandths, everything else in units."""
        return MappingProxyType(requests.spec_request(self))

    @derived
    def scoring_request(self) -> Mapping[str, int]:
        """What the pod, while it is to be placed, counts for in resource scoring."""
        return MappingProxyType(requests.spec_scoring_request(self))

    @derived
    def nonzero_request(self) -> Mapping[str, int]:
        """What the pod, once placed, counts for in resource scoring."""
        return MappingProxyType(requests.spec_nonzero_request(self))

    @derived
    def required_node_affinity(self) -> selectors.RequiredNodeAffinity:
        """What the pod demands of its node's labels and name."""
        return selectors.required_node_affinity(self)

    @derived
    def host_ports(self) -> tuple[HostPort, ...]:
        """The ports of the node that the pod takes, of containers and sidecars, in order."""
        sidecars = [container for container in self.init_containers if requests.is_sidecar(container)]
        return tuple(
            HostPort(port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
            for container in (*self.containers, *sidecars)
            for port in container.ports
            if port.host_port > 0
        )


def _getter_without(record: type[Record], *fields: str) -> Callable[[Record], tuple[object, ...]]:
    return attrgetter(*[field for field in record.__struct_fields__ if field not in fields])


_rest_of_container = _getter_without(Container, "resources")
_rest_of_spec = _getter_without(PodSpec, "containers", "init_containers", "resources", "overhead")


def _without_amounts(spec: PodSpec) -> bytes:
    containers, init_containers = (
        [(_rest_of_container(container), _names(container.resources)) for container in some]
        for some in (spec.containers, spec.init_containers)
    )
    whole_pod = None if spec.resources is None else _names(spec.resources)
    return msgspec.msgpack.encode(
        (_rest_of_spec(spec), containers, init_containers, whole_pod, list(spec.overhead))
    )


def _names(resources: ResourceRequirements) -> tuple[object, ...]:
    return list(resources.requests), list(resources.limits), resources.claims


class ContainerStatus(Record, frozen=True):
    """What a running container was given."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodResourceClaimStatus(Record, frozen=True):
    """Which claim was made from a template for an entry of `PodSpec.resource_claims`."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedResourceRequestMapping(Record, frozen=True):
    """Which request of the claim backs an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Record, frozen=True):
    """The claim made for extended resources that devices back."""

    resource_claim_name: str = ""
    request_mappings: tuple[ExtendedResourceRequestMapping, ...] = ()


class PodStatus(Record, frozen=True):
    """What is observed of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    observed_generation: Int64 = 0


NO_SPEC = PodSpec()
NO_STATUS = PodStatus()
_FINISHED = frozenset(("Succeeded", "Failed"))


class Pod(KubeObject, frozen=True):
    """A pod: who it is, its shared shape, where it is, and what is observed of it."""

    spec: PodSpec = NO_SPEC
    node_name: str = ""
    status: PodStatus = NO_STATUS

    @property
    def finished(self) -> bool:
        """Whether the pod has come to its end: it stands on its node, and takes nothing there."""
        return self.status.phase in _FINISHED

    def placed_on(self, node_name: str) -> Pod:
        """The same pod on a node."""
        return msgspec.structs.replace(self, node_name=node_name)
