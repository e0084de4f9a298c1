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
from stowplan.framework.events import Action, ClusterEvent, EventHint, Hint, Resource
from stowplan.framework.failure import pass_on_exit
from stowplan.framework.registry import RegistryError
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


class Asked(NamedTuple):
    """Who is asked about an event, for pods that certain plugins rejected."""

    registered: tuple[Registered, ...]
    by_shape: bool
    """Whether the answer is the same for all pods of one shape."""


_EVERYTHING = EventHint(Resource.WILDCARD, Action.ALL)


class EventHints:
    """The registrations of one profile for one event."""

    def __init__(self, registered: Iterable[Registered]) -> None:
        self.registered = tuple(registered)
        self.plugins = frozenset(one.plugin for one in self.registered)
        self._asked: dict[frozenset[str], Asked] = {}

    def asked(self, rejectors: frozenset[str]) -> Asked:
        """Those of the plugins that rejected a pod."""
        found = self._asked.get(rejectors)
        if found is None:
            registered = tuple(one for one in self.registered if one.plugin in rejectors)
            by_shape = all(one.event.hint is None or one.event.by_shape for one in registered)
            found = self._asked[rejectors] = Asked(registered, by_shape)
        return found


class Hints:
    """The registrations of one profile, found by event."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._registered = [
            one for plugin in plugins if isinstance(plugin, _MAY_REJECT) for one in _registrations(plugin)
        ]
        self._for_event: dict[ClusterEvent, EventHints] = {}

    def for_event(self, event: ClusterEvent) -> EventHints:
        """The registrations that ask for the event."""
        found = self._for_event.get(event)
        if found is None:
            found = EventHints(one for one in self._registered if event.matches(one.event))
            self._for_event[event] = found
        return found


def judge(queued: QueuedPod, registered: Iterable[Registered], old: Any, new: Any) -> Worth:
    """Whether an event may make the pod schedulable, by the plugins that rejected it. A hint that fails
    counts as yes: better one attempt too many than a pod that is forgotten."""
    worth = Worth.NOTHING
    for plugin, hint in registered:
        if hint.hint is not None and not _says_yes(plugin, hint.hint, queued, old, new):
            continue
        if plugin in queued.pending_plugins:
            return Worth.AT_ONCE
        worth = Worth.AFTER_BACKOFF
        if not queued.pending_plugins:
            break
    return worth


def _says_yes(plugin: str, hint: Hint, queued: QueuedPod, old: Any, new: Any) -> bool:
    try:
        return bool(hint(queued.pod, old, new))
    except BaseException as problem:
        pass_on_exit(problem)
        log.exception("hint of plugin %s failed for pod %s; the pod is tried again", plugin, queued.key)
        return True


def _registrations(plugin: Plugin) -> list[Registered]:
    try:
        return list(_declared(plugin))
    except Exception as problem:
        raise RegistryError(
            f"plugin {plugin.name}: its events cannot be read ({type(problem).__name__}: {problem}); "
            "events() must give None or EventHints"
        ) from problem


def _declared(plugin: Plugin) -> Iterable[Registered]:
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
