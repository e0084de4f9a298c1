"""Manifests from files, with what an API server would have filled in.

What comes from `kubectl get -o yaml` is complete. What people write by hand says no namespace, no uid and
often no requests; read as it stands, two such pods would be one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from stowplan.cli.files import read_file
from stowplan.cli.main import CommandError
from stowplan.cluster import Cluster
from stowplan.objects import (
    Container,
    KubeObject,
    Node,
    ObjectError,
    Pod,
    PriorityClass,
    decode_object,
    find_kind,
    kind_of_record,
    plain_objects,
)

KubeObjectT = TypeVar("KubeObjectT", bound=KubeObject)
_NO_CLASS = PriorityClass()
_SYSTEM_CLASSES = {
    "system-cluster-critical": PriorityClass(value=2_000_000_000),
    "system-node-critical": PriorityClass(value=2_000_001_000),
}


def read_manifests(files: Iterable[str]) -> list[KubeObject]:
    """The objects in the files, as an API server hands them out. Kinds that no scheduler reads are left out,
    of objects of one name the last counts, and standard error says so."""
    left_out: Counter[str] = Counter()
    objects: list[KubeObject] = []
    for file in files:
        try:
            objects += [decode_object(plain) for plain in _known(plain_objects(read_file(file)), left_out)]
        except ObjectError as problem:
            raise CommandError(f"{file}: {problem}") from problem
    if left_out:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(left_out.items()))
        print(f"stowplan: left out, because they do not matter for scheduling: {kinds}", file=sys.stderr)
    return _last_of_each(served(objects))


def _last_of_each(objects: Iterable[KubeObject]) -> list[KubeObject]:
    named = [(f"{type(obj).__name__} {obj.key}", obj) for obj in objects]
    times = Counter(name for name, _ in named)
    repeated = ", ".join(name for name, number in times.items() if number > 1)
    if repeated:
        print(f"stowplan: given more than once, the last one counts: {repeated}", file=sys.stderr)
    return list(dict(named).values())


def _known(manifests: Iterable[Mapping[str, Any]], left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    for plain in manifests:
        kind, api_version = plain.get("kind"), plain.get("apiVersion")
        says_what_it_is = isinstance(kind, str) and isinstance(api_version, str) and kind and api_version
        if says_what_it_is and find_kind(str(kind), str(api_version)) is None:
            left_out[f"{kind} ({api_version})"] += 1
        else:
            yield plain


def served(objects: Iterable[KubeObject]) -> list[KubeObject]:
    """The objects as an API server hands them out after it was given them. Those with a uid come from one."""
    named = [_named(obj) for obj in objects]
    priorities = _Priorities.of(named)
    return [obj if obj.uid else _completed(obj, priorities) for obj in named]


def cluster_with(objects: Iterable[KubeObject]) -> Cluster:
    """The cluster as a scheduler sees it that has been told of these objects, and has not decided yet."""
    cluster = Cluster()
    for obj in objects:
        if isinstance(obj, Pod):
            _stand(obj, cluster)
        else:
            cluster.add(obj)
    return cluster


def _stand(pod: Pod, cluster: Cluster) -> None:
    """A pod that is done takes no room; one that waits may have been promised some."""
    if pod.finished:
        return
    cluster.add(pod)
    if not pod.node_name and pod.status.nominated_node_name:
        cluster.nominations.add(pod, pod.status.nominated_node_name)


def _named(obj: KubeObjectT) -> KubeObjectT:
    in_namespace = obj.namespace or not kind_of_record(type(obj)).namespaced
    return obj if in_namespace else replace(obj, namespace="default")


def _completed(obj: KubeObject, priorities: _Priorities) -> KubeObject:
    if isinstance(obj, Pod):
        obj = _with_requests_and_priority(obj, priorities)
    elif isinstance(obj, Node):
        status = obj.status
        obj = replace(obj, status=replace(status, allocatable=status.allocatable or status.capacity))
    return replace(obj, uid=obj.key)


@dataclass(frozen=True)
class _Priorities:
    """What the names of priority classes mean."""

    classes: Mapping[str, PriorityClass]
    default: PriorityClass

    @classmethod
    def of(cls, objects: Iterable[KubeObject]) -> _Priorities:
        classes = {obj.name: obj for obj in objects if isinstance(obj, PriorityClass)}
        defaults = (one for one in classes.values() if one.global_default)
        default = min(defaults, key=lambda one: one.value, default=_NO_CLASS)
        return cls(_SYSTEM_CLASSES | classes, default)


def _with_requests_and_priority(pod: Pod, priorities: _Priorities) -> Pod:
    """Where the pod does not say, requests follow from limits, and its priority from its class."""
    spec = pod.spec
    by_class = priorities.classes.get(spec.priority_class_name, priorities.default)
    completed = replace(
        spec,
        containers=tuple(_requesting(container) for container in spec.containers),
        init_containers=tuple(_requesting(container) for container in spec.init_containers),
        priority=spec.priority or by_class.value,
        preemption_policy=spec.preemption_policy or by_class.preemption_policy,
    )
    return replace(pod, spec=completed)


def _requesting(container: Container) -> Container:
    resources = container.resources
    requests = {**resources.limits, **resources.requests}
    return replace(container, resources=replace(resources, requests=requests))
