"""Which events may help which rejected pods, as the plugins of a profile declared."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from stowplan.framework.contract import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)
from stowplan.framework.events import Action, ClusterEvent, EventHint, Resource
from stowplan.queue.queued import QueuedPod

log = logging.getLogger(__name__)

_MAY_REJECT = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)


class Worth(IntEnum):
    """What an event means for a rejected pod."""

    NOTHING = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


class Registered(NamedTuple):
    """One plugin's registration."""

    plugin: str
    event: EventHint


_EVERYTHING = EventHint(Resource.WILDCARD, Action.ALL)


class Hints:
    """The registrations of one profile, found by event."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._registered = [
            one for plugin in plugins if isinstance(plugin, _MAY_REJECT) for one in _registrations(plugin)
        ]
        self._matching: dict[ClusterEvent, tuple[Registered, ...]] = {}

    def matching(self, event: ClusterEvent) -> tuple[Registered, ...]:
        """The registrations that ask for the event."""
        found = self._matching.get(event)
        if found is None:
            found = tuple(one for one in self._registered if event.matches(one.event))
            self._matching[event] = found
        return found

    def plugins(self, event: ClusterEvent) -> frozenset[str]:
        """The plugins that asked for the event."""
        return frozenset(one.plugin for one in self.matching(event))

    def by_shape(self, event: ClusterEvent, rejectors: frozenset[str]) -> bool:
        """Whether what these plugins say of the event is the same for all pods of one shape."""
        return all(
            registered.hint is None or registered.by_shape
            for plugin, registered in self.matching(event)
            if plugin in rejectors
        )

    def judge(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Worth:
        """Whether the event may make the pod schedulable, by the plugins that rejected it. A hint that
        fails counts as yes: better one attempt too many than a pod that is forgotten."""
        worth = Worth.NOTHING
        for plugin, registered in self.matching(event):
            if plugin not in queued.unschedulable_plugins and plugin not in queued.pending_plugins:
                continue
            if registered.hint is not None and not _says_yes(plugin, registered, queued, old, new):
                continue
            if plugin in queued.pending_plugins:
                return Worth.AT_ONCE
            worth = Worth.AFTER_BACKOFF
            if not queued.pending_plugins:
                break
        return worth


def _says_yes(plugin: str, registered: EventHint, queued: QueuedPod, old: Any, new: Any) -> bool:
    assert registered.hint is not None
    try:
        return registered.hint(queued.pod, old, new)
    except Exception:
        log.exception("hint of plugin %s failed for pod %s; the pod is tried again", plugin, queued.key)
        return True


def _registrations(plugin: Plugin) -> Iterable[Registered]:
    events = plugin.events()
    if events is None:
        yield Registered(plugin.name, _EVERYTHING)
        return
    on_nodes = Action(0)
    for event in events:
        yield Registered(plugin.name, event)
        if event.resource is Resource.NODE:
            on_nodes |= event.action
    if on_nodes & Action.ADD and not on_nodes & Action.UPDATE_NODE_TAINT:
        # As upstream has it: who waits for new nodes is also told when taints of a node change, always.
        yield Registered(plugin.name, EventHint(Resource.NODE, Action.UPDATE_NODE_TAINT))
