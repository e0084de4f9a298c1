"""`/metrics/resources`: what every pod asks for and may use at most, as kube-scheduler shows it.

A cluster has more pods than one wants to hold as metric objects, so the text is made while it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from stowplan.objects import Pod
from stowplan.objects.pod import PodSpec
from stowplan.objects.requests import exact_limit, exact_request

_PIECE = 1 << 16
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
_NANO = 10**9

_Amount: TypeAlias = Callable[[PodSpec], dict[str, int]]

_FAMILIES: tuple[tuple[str, str, _Amount], ...] = (
    ("kube_pod_resource_limit", "[STABLE] What a pod may use at most of a resource.", exact_limit),
    ("kube_pod_resource_request", "[STABLE] What a pod asks for of a resource.", exact_request),
)


def resource_metrics(pods: Iterable[Pod]) -> Iterator[bytes]:
    """The page, in pieces. Pods that have come to their end use nothing."""
    counted = [pod for pod in pods if not (pod.node_name and pod.finished)]
    for name, text, amount in _FAMILIES:
        yield f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode()
        yield from _in_pieces(_lines(name, counted, amount))


def _lines(name: str, pods: Iterable[Pod], amount: _Amount) -> Iterator[str]:
    known: dict[PodSpec, list[str]] = {}  # pods of one shape differ in name and node only
    for pod in pods:
        ends = known.get(pod.spec)
        if ends is None:
            ends = known[pod.spec] = list(_ends(pod.spec, amount))
        start = f'{name}{{namespace="{pod.namespace}",node="{pod.node_name}",pod="{pod.name}",'
        for end in ends:
            yield start + end


def _ends(spec: PodSpec, amount: _Amount) -> Iterator[str]:
    for resource, nano in amount(spec).items():
        if nano:
            value = nano // _NANO if nano % _NANO == 0 else nano / _NANO
            yield (
                f'priority="{spec.priority}",resource="{resource}",scheduler="{spec.scheduler_name}",'
                f'unit="{unit_of(resource)}"}} {value}\n'
            )


def unit_of(resource: str) -> str:
    """The unit that a resource is counted in, empty for devices and the like."""
    if resource == "cpu":
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""


def _in_pieces(lines: Iterable[str]) -> Iterator[bytes]:
    piece: list[str] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= _PIECE:
            yield "".join(piece).encode()
            piece, size = [], 0
    yield "".join(piece).encode()
