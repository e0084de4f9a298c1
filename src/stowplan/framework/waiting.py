"""Pods that Permit plugins hold back: reserved on a node, not bound yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stowplan.framework.status import Status, error, unschedulable
from stowplan.objects import Pod
from stowplan.objects.duration import Duration

MAX_WAIT = 15 * 60.0
"""No plugin can hold a pod back for longer, in seconds."""

Verdict = Status | None


class WaitingPod:
    """One pod that waits. It goes on when every plugin that holds it back has allowed it; the first
    rejection or timeout sends it back. Knows no clock: whoever made it calls `time_out`."""

    def __init__(self, pod: Pod, node_name: str, timeouts: Mapping[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self.timeouts = {plugin: min(seconds, MAX_WAIT) for plugin, seconds in timeouts.items()}
        self._held_by = set(timeouts)
        self._verdict: Verdict = None
        self._settled = False
        self._tell: Callable[[Verdict], None] | None = None

    @property
    def held_by(self) -> frozenset[str]:
        """The plugins that have not allowed it yet."""
        return frozenset(self._held_by)

    def allow(self, plugin: str) -> None:
        """The plugin does not hold the pod back any longer."""
        self._held_by.discard(plugin)
        if not self._held_by:
            self._settle(None)

    def reject(self, plugin: str, reason: str) -> None:
        """The pod must not go there; it is tried again when something changes."""
        self._settle(unschedulable(reason).by(plugin))

    def preempt(self, reason: str) -> bool:
        """The pod has to make way before it was even bound: it is tried again after a while. False when it
        does not wait any more."""
        return self._settle(error(reason))

    def time_out(self, plugin: str) -> None:
        """The plugin's time is up."""
        if plugin in self._held_by:
            waited = Duration.of_seconds(self.timeouts[plugin])
            self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def when_settled(self, tell: Callable[[Verdict], None]) -> None:
        """Calls back once, with None when the pod was allowed; at once if that is so already."""
        self._tell = tell
        if self._settled:
            tell(self._verdict)

    def _settle(self, verdict: Verdict) -> bool:
        if self._settled:
            return False
        self._settled, self._verdict = True, verdict
        if self._tell is not None:
            self._tell(verdict)
        return True


class WaitingPods:
    """All pods that wait, of all profiles."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
