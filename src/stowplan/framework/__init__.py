"""The scheduling framework: the contract a plugin keeps, and the runtime that runs plugins.

`contract.py` is the whole contract in one file. `profile.py` holds the plugins of one scheduler name by
extension point, `memory.py` remembers their answers per pod shape, `decision.py` says what came out.
This room knows no particular plugin, and no clock, socket or randomness of its own.
"""

from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import (
    ASK_ALWAYS,
    PODS_TO_ACTIVATE,
    SKIP,
    BindPlugin,
    CycleState,
    FilterPlugin,
    Handle,
    Narrow,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Preflight,
    PreScorePlugin,
    QueuedPod,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Wait,
)
from stowplan.framework.decision import Rejections
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.framework.normalizing import default_normalize
from stowplan.framework.status import Code, Status, error, pending, unresolvable, unschedulable
from stowplan.framework.verdict import Verdict

__all__ = [
    "ASK_ALWAYS",
    "PODS_TO_ACTIVATE",
    "SKIP",
    "Action",
    "BindPlugin",
    "Code",
    "CycleState",
    "EventHint",
    "FilterPlugin",
    "Handle",
    "Narrow",
    "PermitPlugin",
    "Plugin",
    "PluginArgs",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreScorePlugin",
    "Preflight",
    "QueueSortPlugin",
    "QueuedPod",
    "Reads",
    "Rejections",
    "ReservePlugin",
    "Resource",
    "ScorePlugin",
    "Status",
    "Verdict",
    "Wait",
    "default_normalize",
    "error",
    "pending",
    "unresolvable",
    "unschedulable",
]
