"""Asking the plugins of the queue; whatever is wrong with an answer is theirs and their pod's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from stowplan.framework.contract import PreEnqueuePlugin, QueueSortPlugin
from stowplan.framework.failure import pass_on_exit
from stowplan.framework.status import Code, checked_status
from stowplan.objects import Pod
from stowplan.queue.queued import QueuedPod

log = logging.getLogger(__name__)


def order_by(plugin: QueueSortPlugin) -> Callable[[QueuedPod], tuple[int, Any]]:
    """The plugin's order; pods with which it fails come last."""

    def key(queued: QueuedPod) -> tuple[int, Any]:
        try:
            return 0, plugin.sort_key(queued)
        except BaseException as problem:
            pass_on_exit(problem)
            log.exception("QueueSort of plugin %s failed for pod %s; it comes last", plugin.name, queued.key)
            return 1, 0

    return key


def refuses(plugin: PreEnqueuePlugin, pod: Pod) -> bool:
    """Whether the plugin keeps the pod out; one that fails does."""
    try:
        status = checked_status(plugin.pre_enqueue(pod))
        return status is not None and status.code is not Code.SUCCESS
    except BaseException as problem:
        pass_on_exit(problem)
        log.exception("PreEnqueue of plugin %s failed for pod %s; the pod is kept out", plugin.name, pod.key)
        return True


def let_in(plugin: PreEnqueuePlugin) -> Iterable[str] | None:
    """The pods that the plugin lets in by now; None when it does not know, or fails."""
    try:
        keys = plugin.let_in()
        return None if keys is None else [str(key) for key in keys]
    except BaseException as problem:
        pass_on_exit(problem)
        log.exception(
            "plugin %s failed to say whom it lets in; each pod that it keeps out is asked about", plugin.name
        )
        return None
