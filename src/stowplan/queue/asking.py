"""Asking the plugins of the queue; whatever is wrong with an answer is theirs and their pod's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from stowplan.framework.contract import PreEnqueuePlugin, QueueSortPlugin
from stowplan.framework.status import Code
from stowplan.objects import Pod
from stowplan.queue.queued import QueuedPod

log = logging.getLogger(__name__)

_LAST = 16
"""The rank of pods without a key."""


def order_by(plugin: QueueSortPlugin) -> Callable[[QueuedPod], tuple[int, Any]]:
    """The plugin's order. Keys are compared with those like the plugin's first only, so that no key, whatever
    it is, can break the queue; pods with other kinds of keys come after these, and those with none last."""
    ranks: dict[object, int] = {}

    def key(queued: QueuedPod) -> tuple[int, Any]:
        try:
            made = plugin.sort_key(queued)
            make = _make_of(made)
            if make not in ranks and len(ranks) < _LAST:
                _check_order(made)
                ranks[make] = len(ranks)
            return (ranks[make], made) if make in ranks else (_LAST, 0)
        except Exception:
            log.exception("QueueSort of plugin %s failed for pod %s; it comes last", plugin.name, queued.key)
            return _LAST, 0

    return key


def _make_of(key: object) -> object:
    """What keys that can be compared have in common."""
    if type(key) is tuple:
        return tuple(map(_make_of, key))
    return float if isinstance(key, (int, float)) else type(key)


def _check_order(key: Any) -> None:
    """Raises when keys of this make cannot be compared."""
    if type(key) is tuple:
        for part in key:
            _check_order(part)
    else:
        key < key  # noqa: B015 -- it is the question that counts


def refuses(plugin: PreEnqueuePlugin, pod: Pod) -> bool:
    """Whether the plugin keeps the pod out; one that fails does."""
    try:
        answer = plugin.pre_enqueue(pod)
        return answer is not None and answer.code is not Code.SUCCESS
    except Exception:
        log.exception("PreEnqueue of plugin %s failed for pod %s; the pod is kept out", plugin.name, pod.key)
        return True


def let_in(plugin: PreEnqueuePlugin) -> Iterable[str] | None:
    """The pods that the plugin lets in by now; None when it does not know, or fails."""
    try:
        keys = plugin.let_in()
        return None if keys is None else list(keys)
    except Exception:
        log.exception(
            "plugin %s failed to say whom it lets in; each pod that it keeps out is asked about", plugin.name
        )
        return None
