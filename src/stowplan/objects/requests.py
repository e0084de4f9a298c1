"""How much of each resource a pod asks for, and how much of it counts as used once it is placed.

Amounts are summed exactly, in billionths, and rounded up once at the end: two containers of half a
millicore are one millicore, not two. What is asked for is nothing at least and AMOUNT_MAX at most, so that no
pod, whatever it says, can upset the sums of its node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from stowplan.objects.base import Quantity
from stowplan.objects.quantity import AMOUNT_MAX, nano_value, resource_amounts

if TYPE_CHECKING:
    from stowplan.objects.pod import Container, Pod, PodSpec, ResourceRequirements

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
"""What a container that names no request is taken to need, so that spreading such pods is not blind."""

_NANO = 10**9
_DEFAULTS = {"cpu": DEFAULT_MILLI_CPU * _NANO // 1000, "memory": DEFAULT_MEMORY * _NANO}
_NO_DEFAULTS: dict[str, int] = {}

_Amounts: TypeAlias = dict[str, int]
_RequestOf: TypeAlias = "Callable[[Container], _Amounts]"


def spec_request(spec: PodSpec) -> dict[str, int]:
    """What the pod needs to fit on a node: cpu in thousandths, everything else in units."""
    if _is_plain(spec):
        amounts = resource_amounts(spec.containers[0].resources.requests)
        return {name: max(amount, 0) for name, amount in amounts.items()}
    return _canonical(_pod_request(spec, _declared, _NO_DEFAULTS))


def spec_scoring_request(spec: PodSpec) -> dict[str, int]:
    """What a pod to be placed counts for in resource scoring: containers that name nothing count defaults.

    Requests of the pod as a whole do not count here, as upstream.
    """
    if _is_plain(spec):
        return {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY, **spec.request}
    return _canonical(_pod_request(spec, _declared, _DEFAULTS, pod_level=False))


def spec_nonzero_request(spec: PodSpec) -> Mapping[str, int]:
    """What a placed pod counts for in resource scoring, while its status says nothing else."""
    if spec.resources is None:
        return spec.scoring_request
    return _nonzero_request(spec, _declared, None)


def placed_request(pod: Pod) -> Mapping[str, int]:
    """What a placed pod uses of its node: the most of what is declared, allocated and in effect."""
    if uses_what_it_declares(pod):
        return pod.spec.request
    return _canonical(_pod_request(pod.spec, _effective_request(pod), _NO_DEFAULTS, _pod_resize(pod)))


def placed_nonzero_request(pod: Pod) -> Mapping[str, int]:
    """What a placed pod counts for in resource scoring; only its cpu and memory are used."""
    if uses_what_it_declares(pod):
        return pod.spec.nonzero_request
    return _nonzero_request(pod.spec, _effective_request(pod), _pod_resize(pod))


def _is_plain(spec: PodSpec) -> bool:
    """One container and nothing else: most pods, for which there is nothing to sum up."""
    return len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or spec.resources)


def exact_request(spec: PodSpec) -> dict[str, int]:
    """What the pod asks for, in billionths of a unit: for reports, where nothing may be rounded."""
    return _pod_request(spec, _declared, _NO_DEFAULTS)


def exact_limit(spec: PodSpec) -> dict[str, int]:
    """What the pod may use at most, in billionths of a unit. Overhead counts where there is a limit."""
    total = _containers_request(spec, lambda container: _nano(container.resources.limits))
    total.update(_pod_level(spec.resources.limits if spec.resources is not None else {}))
    _add(total, {name: amount for name, amount in _nano(spec.overhead).items() if total.get(name)})
    return total


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the main containers."""
    return container.restart_policy == "Always"


# ---------------------------------------------------------------- sums


def _nonzero_request(spec: PodSpec, request_of: _RequestOf, resize: _Amounts | None) -> dict[str, int]:
    defaults = _DEFAULTS
    if _pod_level_requests(spec):
        plain = _pod_request(spec, request_of, _NO_DEFAULTS, resize)
        defaults = {name: amount for name, amount in _DEFAULTS.items() if name not in plain}
    return _canonical(_pod_request(spec, request_of, defaults, resize))


def _pod_request(
    spec: PodSpec,
    request_of: _RequestOf,
    defaults: _Amounts,
    resize: _Amounts | None = None,
    pod_level: bool = True,
) -> _Amounts:
    total = _containers_request(spec, lambda container: {**defaults, **request_of(container)})
    if pod_level:
        declared = _pod_level_requests(spec)
        total.update(declared if resize is None else {name: resize.get(name, 0) for name in declared})
    _add(total, _nano(spec.overhead))
    return total


def _containers_request(spec: PodSpec, request_of: _RequestOf) -> _Amounts:
    """The most that is needed at any moment: while an init container runs, or all others together."""
    running: _Amounts = {}
    for container in spec.containers:
        _add(running, request_of(container))
    sidecars: _Amounts = {}
    starting: _Amounts = {}
    for container in spec.init_containers:
        needed = request_of(container)
        if is_sidecar(container):
            _add(running, needed)
            _add(sidecars, needed)
            needed = sidecars
        else:
            needed = dict(needed)
            _add(needed, sidecars)
        _raise_to(starting, needed)
    _raise_to(running, starting)
    return running


def _pod_level_requests(spec: PodSpec) -> _Amounts:
    return _pod_level(spec.resources.requests if spec.resources is not None else {})


def _pod_level(declared: Mapping[str, Quantity]) -> _Amounts:
    """The resources that can be asked for by the pod as a whole."""
    return {
        name: nano_value(quantity)
        for name, quantity in declared.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


# ---------------------------------------------------------------- what status reports


def uses_what_it_declares(pod: Pod) -> bool:
    """Whether the status reports no other resources than the spec asks for: nearly every pod, and then what
    it uses is known from its shape."""
    status = pod.status
    if status.resources is not None:
        return False
    reported = [*status.container_statuses, *status.init_container_statuses]
    if not reported:
        return True
    declared = {c.name: c.resources.requests for c in (*pod.spec.containers, *pod.spec.init_containers)}
    return all(
        one.resources is None
        or (
            one.resources.requests == declared.get(one.name)
            and (one.allocated_resources is None or one.allocated_resources == one.resources.requests)
        )
        for one in reported
    )


def reported(pod: Pod) -> tuple[object, ...]:
    """All that the status says about resources: while it stays as it was, a placed pod uses what it used."""
    status = pod.status
    return (
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        _resize_is_infeasible(pod),
    )


def _effective_request(pod: Pod) -> _RequestOf:
    statuses = {s.name: s for s in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    sidecars_only = {c.name for c in pod.spec.init_containers if not is_sidecar(c)}
    infeasible = _resize_is_infeasible(pod)

    def request_of(container: Container) -> _Amounts:
        reported = statuses.get(container.name)
        if reported is None or container.name in sidecars_only:
            return _declared(container)
        return _most(container.resources, reported.resources, reported.allocated_resources, infeasible)

    return request_of


def _pod_resize(pod: Pod) -> _Amounts | None:
    """What the pod as a whole is granted, when its status says so."""
    status = pod.status
    if status.resources is None or pod.spec.resources is None:
        return None
    infeasible = _resize_is_infeasible(pod)
    return _most(pod.spec.resources, status.resources, status.allocated_resources, infeasible)


def _most(
    declared: ResourceRequirements,
    actual: ResourceRequirements | None,
    allocated: Mapping[str, Quantity] | None,
    infeasible: bool,
) -> _Amounts:
    """A resize that cannot be done does not count; until one is done, the larger amount does."""
    if actual is None:
        return _nano(declared.requests)
    most = {} if infeasible else _nano(declared.requests)
    _raise_to(most, _nano(actual.requests))
    _raise_to(most, _nano(allocated or {}))
    return most


def _resize_is_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


# ---------------------------------------------------------------- amounts


def _declared(container: Container) -> _Amounts:
    return _nano(container.resources.requests)


def _nano(resources: Mapping[str, Quantity]) -> _Amounts:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


def _add(total: _Amounts, more: _Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Amounts, level: _Amounts) -> None:
    for name, amount in level.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _canonical(amounts: _Amounts) -> dict[str, int]:
    return {name: _rounded(amount, 10**6 if name == "cpu" else _NANO) for name, amount in amounts.items()}


def _rounded(amount: int, unit: int) -> int:
    """Divided and rounded up. Nobody can ask for less than nothing: it would make room for others."""
    return max(0, min(-(-amount // unit), AMOUNT_MAX))
