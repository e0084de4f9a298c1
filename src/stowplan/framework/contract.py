"""The contract a plugin keeps: every extension point, when it runs, and what its answers mean.

A plugin is a class. It derives from `Plugin` and from one class per extension point it serves, and a
profile builds it once, however many points that is. The points of the scheduling cycle (QueueSort to
Permit) are plain functions; those of the binding cycle (PreBind, Bind, PostBind) are coroutines.

Filtering and scoring come in two forms. Write `filter_node` and `score_node` for one node at a time,
or `filter` and `score` for all nodes at once as columns; the runtime asks in columns, and a class with
only the per-node form is asked node by node. With both forms the runtime takes the per-node one where
just a few nodes changed: both must agree.

What an answer depends on is declared in `reads`. Without a declaration nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterable, Mapping, Sequence
from copy import copy
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Protocol, runtime_checkable

import numpy as np

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.framework.args import PluginArgs
from stowplan.framework.events import EventHint
from stowplan.framework.status import Code, Status, checked_score
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod

if TYPE_CHECKING:
    from stowplan.framework.decision import Rejections
    from stowplan.framework.profile import Profile
    from stowplan.framework.waiting import WaitingPods

MAX_SCORE = 100
PODS_TO_ACTIVATE = "stowplan/pods-to-activate"
"""A plugin may leave pods (by uid) in the state under this key: they are tried again at once. Looked at after
Permit, so that pods can be called that this one is held back for, and once more when it is bound."""
SKIP = Status(Code.SKIP)
"""PreFilter, PreScore: this plugin has nothing to say about this pod, do not ask it in this cycle."""


class Reads(Flag):
    """What a plugin's Filter and Score depend on besides the pod's shape.

    The runtime remembers the answers of NODE and USAGE plugins per shape, and asks again only for the
    rows that changed. Their PreFilter and PreScore must then depend on the shape alone, and are run once
    per shape.
    """

    NODE = auto()
    """The node object: labels, annotations, spec, allocatable, images; not its conditions."""
    USAGE = auto()
    """The pods on the node itself: what they request, their ports."""
    CLUSTER = auto()
    """Anything else: pods on other nodes, volumes, claims, the plugin's own memory. Never remembered."""


class _AskAlways:
    """The type of `ASK_ALWAYS`."""

    def __repr__(self) -> str:
        return "ASK_ALWAYS"


ASK_ALWAYS = _AskAlways()
"""As a shape: for such pods the answer depends on more than `reads` says, and must not be remembered."""


class CycleState(dict[Hashable, Any]):
    """What plugins note down for later points of the same cycle, under keys of their own choice.

    A trial (preemption, nominated pods) gets a copy, and may change it: values with a `clone` method are
    cloned, dicts, lists, sets and arrays copied as they are. All other values are shared by all trials.
    """

    __slots__ = ("skipped_filters", "skipped_scores")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.skipped_filters: set[str] = set()
        self.skipped_scores: set[str] = set()

    def __missing__(self, key: Hashable) -> NoReturn:
        raise KeyError(
            f"nothing is noted as {key!r}: the profile may lack PreFilter or PreScore of the plugin"
        )

    def clone(self) -> CycleState:
        twin = CycleState(
            (key, value.clone() if hasattr(value, "clone") else _copied(value)) for key, value in self.items()
        )
        twin.skipped_filters = set(self.skipped_filters)
        twin.skipped_scores = set(self.skipped_scores)
        return twin


def _copied(value: object) -> object:
    return copy(value) if isinstance(value, (dict, list, set, np.ndarray)) else value


class Narrow(NamedTuple):
    """PreFilter: only these nodes can take the pod, do not look at others."""

    names: frozenset[str]


@runtime_checkable
class QueuedPod(Protocol):
    """A pod as the queue holds it."""

    pod: Pod
    timestamp: float
    """When it entered the queue, in seconds."""
    attempts: int


class Client(Protocol):
    """The write side: what a plugin may change in the world. The host of the core decides what that is:
    a real API server, the embedded one, a simulation, nothing at all."""

    async def bind(self, pod: Pod, node_name: str) -> None: ...
    async def update(self, obj: Any, *, subresource: str = "") -> Any: ...
    async def create(self, obj: Any) -> Any: ...
    async def delete(self, obj: Any) -> None: ...
    async def patch(self, obj: Any, patch: Mapping[str, Any], *, subresource: str = "") -> Any: ...


class Handle(Protocol):
    """What a plugin is given when it is built."""

    @property
    def cluster(self) -> Cluster:
        """The cluster as known now. Plugins read it; only trials change it."""
        ...

    @property
    def profile(self) -> Profile:
        """The profile this plugin belongs to, complete once all its plugins are built."""
        ...

    @property
    def client(self) -> Client:
        """The write side, for the points of the binding cycle."""
        ...

    @property
    def waiting(self) -> WaitingPods:
        """The pods that Permit plugins hold back, of all profiles: to allow or reject them."""
        ...

    def now(self) -> float:
        """The time, in seconds since the epoch, by the clock of the host."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits until this much time has gone by, by the same clock."""
        ...

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Has something done in the world soon, from a point that cannot wait for it (PostFilter,
        Unreserve). Nobody hears of a failure but the log; a host that only decides drops the work."""
        ...


class Plugin:
    """The base of every plugin."""

    name: ClassVar[str]
    """The name in configurations and messages; by default the name of the class."""
    Args: ClassVar[type[PluginArgs]] = PluginArgs
    """The record of its `pluginConfig` args, with defaults."""
    reads: ClassVar[Reads] = Reads.CLUSTER
    shaped_by_template: ClassVar[bool] = False
    """Whether `concerns` and `shape` follow from `pod.spec.template` (the spec without amounts of resources)
    and `pod.node_name` alone. Then they are asked once per template, however many different requests and
    labels pods have."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def concerns(self, pod: Pod) -> bool:
        """False when the shape alone tells that this pod is none of the plugin's business: its Filter passes
        every node and its Score is 0 for all, without being asked. Asked once per shape."""
        return True

    def shape(self, pod: Pod) -> Hashable:
        """The part of the pod that remembered answers depend on. Pods with an equal part share them, so
        the less it holds the better; it must hold all that the plugin reads of the pod. It may be taken
        from the pod's namespace, labels, spec, controller and node name, which make up the pod's shape, and
        from the device classes. `ASK_ALWAYS` makes an exception for this pod."""
        return pod.namespace, pod.labels, pod.spec, pod.controller, pod.node_name

    def events(self) -> Sequence[EventHint] | None:
        """What may make a pod schedulable that this plugin rejected: such pods are tried again when one of
        these comes, and otherwise left alone. None (nothing declared): after any event."""
        return None

    def close(self) -> None:
        """Called once at shutdown."""


class PreEnqueuePlugin(Plugin):
    """Runs before a pod may enter the active queue. Any status keeps it out until an event that the
    plugin registered for comes."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        raise NotImplementedError

    def let_in(self) -> Iterable[str] | None:
        """The pods (`namespace/name`) that it has kept out and would let in by now, each told at least once.
        None, the default: it does not keep count, and is asked about every pod that it keeps out whenever one
        of its events comes. Worth an answer where thousands of events find hundreds of pods."""
        return None


class QueueSortPlugin(Plugin):
    """Says which pod is next: the one with the smallest key. One plugin, the same in all profiles."""

    def sort_key(self, queued: QueuedPod) -> Any:
        """Anything that can be compared with the keys of other pods, usually a tuple."""
        raise NotImplementedError


class PreFilterPlugin(Plugin):
    """Runs once per pod, before any node is looked at.

    None: go on. `SKIP`: leave out this plugin's Filter. `Narrow`: look at these nodes only.
    Unschedulable: rejected, though other PreFilters still run and preemption may help. Unresolvable:
    rejected at once. Pending: rejected, and tried again at once when the plugin's event comes.
    """

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | Narrow | None:
        raise NotImplementedError

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> Status | None:
        """`other` was added to the node (in a trial, the cluster shows it already): correct what
        `pre_filter` noted in `state`, which is a copy for this trial."""
        return None

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> Status | None:
        """`other` was removed from the node, in a trial."""
        return None


class FilterPlugin(Plugin):
    """Says which nodes can take the pod. Must not change anything.

    Unschedulable: not this node, though removing pods from it may help. Unresolvable: not this node, and
    preemption need not try.
    """

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        """One node: None when it can take the pod."""
        verdict = self.filter(state, pod, _one(node))
        code = verdict.codes.item(0)
        return verdict.status_of(code) if code else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        """All nodes at once."""
        return Verdict.of([self.filter_node(state, pod, node) for node in nodes])


class PostFilterPlugin(Plugin):
    """Runs when no node can take the pod, to make room for it.

    Success with a node says that the pod will fit there soon. Unschedulable: could not help, the next plugin
    is asked. Unresolvable: could not help, and nobody else is asked.
    """

    def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
        raise NotImplementedError

    def making_room(self, pod: Pod, victims: tuple[Pod, ...]) -> None:
        """Is told which victims the host now removes for the pod, before the pod can be tried again; and,
        with no victims, that all has been done for that or has failed."""


class PostFilterResult(NamedTuple):
    """What came of PostFilter: a status (None is success) and which node is promised to the pod: a name,
    "" to withdraw an earlier promise, or None to leave it as it is."""

    status: Status | None
    nominated_node: str | None = None
    victims: tuple[Pod, ...] = ()
    """The pods that must go from the nominated node first."""


class PreScorePlugin(Plugin):
    """Runs once per pod, before scoring, with the nodes that can take it. None: go on. `SKIP`: leave out
    this plugin's Score."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        raise NotImplementedError


class ScorePlugin(Plugin):
    """Says how well the nodes suit the pod: after `normalize`, 0 to 100 each."""

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        """One node."""
        scores = self.score(state, pod, _one(node))
        return scores if isinstance(scores, int) else scores.item(0)

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        """All nodes at once; a plain int when every node has the same score."""
        scores = (checked_score(self.score_node(state, pod, node)) for node in nodes)
        return np.fromiter(scores, np.int64, len(nodes))

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        """Brings the scores of the nodes that can take the pod to 0 to 100: new ones, the given column cannot
        be written into; often `default_normalize`. Where all nodes score the same, it must give all nodes the
        same. Leave it out when scores are in range by themselves."""
        return scores


class ReservePlugin(Plugin):
    """Takes note of the choice of a node, before anything is written. The first failure rejects the pod,
    and `unreserve` is called on all Reserve plugins in reverse order."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undoes `reserve`. Must cope with a pod that was never reserved, and must not fail."""
        raise NotImplementedError


class PermitPlugin(Plugin):
    """Has the last word before binding: None allows, a rejection rejects, `wait` makes the pod wait until
    somebody allows or rejects it or the time is up."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        raise NotImplementedError


class Wait(NamedTuple):
    """Permit: wait this many seconds at the most, then reject."""

    timeout: float


class Preflight(NamedTuple):
    """What PreBind will do: nothing (`SKIP`), fail, or something; and whether that may happen at the same
    time as its neighbours."""

    status: Status | None = None
    parallel: bool = False


class PreBindPlugin(Plugin):
    """Does what must be done in the world before the pod is bound: volumes, claims."""

    def pre_bind_preflight(self, state: CycleState, pod: Pod, node_name: str) -> Preflight:
        """Says beforehand whether there is anything to do. Must not change anything."""
        return Preflight()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        raise NotImplementedError


class BindPlugin(Plugin):
    """Binds the pod to the node. `SKIP`: not my pod, ask the next."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        raise NotImplementedError


class PostBindPlugin(Plugin):
    """Is told that a pod was bound."""

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        raise NotImplementedError


def overrides(plugin: Plugin, base: type[Plugin], method: str) -> bool:
    """Whether the plugin has a method of its own in place of the contract's."""
    return getattr(type(plugin), method) is not getattr(base, method)


def _one(node: NodeRow) -> Nodes:
    return Nodes(node.cluster, np.array([node.row]))
