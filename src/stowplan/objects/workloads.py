"""What owns, selects, protects and ranks pods."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.objects.base import Int32, Record
from stowplan.objects.meta import KubeObject, LabelSelector, Time


class ServiceSpec(Record, frozen=True):
    """The pods of a service; without a selector it has none."""

    selector: Mapping[str, str] = {}


class Service(KubeObject, frozen=True):
    """Pods that are reached under one name."""

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Record, frozen=True):
    """The pods of a replication controller."""

    replicas: Int32 | None = None
    selector: Mapping[str, str] = {}


class ReplicationController(KubeObject, frozen=True):
    """The oldest way to keep a number of pods running."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(Record, frozen=True):
    """The pods of a replica set or stateful set."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class ReplicaSet(KubeObject, frozen=True):
    """Keeps a number of pods running."""

    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(KubeObject, frozen=True):
    """Keeps a number of pods with lasting names running."""

    spec: WorkloadSpec = WorkloadSpec()


class NamespaceStatus(Record, frozen=True):
    """Active or Terminating."""

    phase: str = ""


class Namespace(KubeObject, frozen=True):
    """A namespace; its labels are what namespace selectors select by."""

    status: NamespaceStatus = NamespaceStatus()


class PodDisruptionBudgetSpec(Record, frozen=True):
    """The pods that a budget protects."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Record, frozen=True):
    """How many more of them may go now; `disrupted_pods` are already counted as gone."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Time] = {}


class PodDisruptionBudget(KubeObject, frozen=True):
    """How many pods of a set may be missing at once."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(KubeObject, frozen=True):
    """A named priority."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""


class LeaseSpec(Record, frozen=True):
    """Who holds a lease, since when and for how long."""

    holder_identity: str = ""
    lease_duration_seconds: Int32 | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: Int32 | None = None


class Lease(KubeObject, frozen=True):
    """A lock with a time limit, as leader election uses it."""

    spec: LeaseSpec = LeaseSpec()
