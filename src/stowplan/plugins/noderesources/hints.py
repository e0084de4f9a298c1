"""What may make a pod fit: room that others leave, bigger nodes, devices that stand in for a resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stowplan.cluster.extended import CLASS_PREFIX, ExtendedResources, may_be_device
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import DeviceClass, Node, Pod, placed_request
from stowplan.plugins.noderesources.names import is_counted
from stowplan.plugins.waking import is_same, takes_room


class FitHints:
    """The hints of NodeResourcesFit."""

    def __init__(self, classes: ExtendedResources) -> None:
        self._classes = classes

    def events(self) -> Sequence[EventHint]:
        on_pods = Action.DELETE | Action.UPDATE_POD_SCALE_DOWN
        on_nodes = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        return (
            EventHint(Resource.POD, on_pods, _leaves_room, by_shape=True),
            EventHint(Resource.NODE, on_nodes, self._offers_more, by_shape=True),
            EventHint(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE, _stands_in, by_shape=True),
        )

    def _offers_more(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """Whether the node is big enough, were it empty, and was not before or offers more of something."""
        needs = dict(_needs(pod))
        if not self._would_fit(needs, new):
            return False
        if old is None:
            return True
        before, after = old.allocatable, new.allocatable
        return any(
            after.get(name, 0) > before.get(name, 0) or self._is_device(name, after.get(name, 0))
            for name in ("pods", *needs)
        )

    def _would_fit(self, needs: Mapping[str, int], node: Node) -> bool:
        offered = node.allocatable
        return offered.get("pods", 0) > 0 and all(
            amount <= offered.get(name, 0) or self._is_device(name, offered.get(name, 0))
            for name, amount in needs.items()
        )

    def _is_device(self, name: str, offered: int) -> bool:
        """Whether the node offers none of it, but devices stand in for it."""
        return offered <= 0 and may_be_device(name) and self._classes.class_of(name) is not None


def _needs(pod: Pod) -> Iterable[tuple[str, int]]:
    request = placed_request(pod)
    return ((name, amount) for name, amount in request.items() if amount and is_counted(name))


def _leaves_room(pod: Pod, old: Pod, new: Pod | None) -> bool:
    if new is None:
        return takes_room(old)
    if is_same(pod, new):
        return True
    if not new.node_name:
        return False
    before, after = placed_request(old), placed_request(new)
    return any(before.get(name, 0) > after.get(name, 0) for name, _ in _needs(pod))


def _stands_in(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> bool:
    resource = new.spec.extended_resource_name
    if old is None:
        if CLASS_PREFIX + new.name in pod.spec.request:
            return True
    elif (old.spec.extended_resource_name or "") == (resource or ""):
        return False
    return resource is not None and resource in pod.spec.request
