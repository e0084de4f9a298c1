"""Where a trace differs from what is wanted, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from conformance.cases import Candidate, Preemption, Rejection, Want
from stowplan.engine import Decision, Trace
from stowplan.framework.status import Status
from stowplan.framework.trace import PreemptionTrace

_INSUFFICIENT = "Insufficient "
_FIXED_ORDER = frozenset(_INSUFFICIENT + name for name in ("cpu", "memory", "ephemeral-storage"))


Standing = Callable[[Sequence[str]], object]
"""Of the victims of a node, all that counts when preemption chooses between nodes."""


def differences(want: Want, got: Trace, standing: Standing = tuple) -> list[str]:
    """Everything in which the trace of a pod is not what is wanted; nothing when they agree."""
    return [f"{want.pod}: {difference}" for difference in _differences(want, got, standing)]


def decision_differences(
    want: Want, got: Decision, nominated: str = "", standing: Standing = tuple
) -> list[str]:
    """In what the quick way, which remembers and judges in columns, is not what is wanted. A pod takes the
    node that is promised to it without looking for a better one."""
    found = _decision_differences(want, got, nominated, standing)
    return [f"{want.pod}: decide: {difference}" for difference in found]


def _decision_differences(want: Want, got: Decision, nominated: str, standing: Standing) -> Iterator[str]:
    if want.feasible:
        right = (nominated,) if nominated in want.feasible else want.best
        if got.node_name not in right:
            yield f"node: want one of {_shown(right)}, got {_shown(got.node_name)}: {got.message}"
        return
    yield from _compare("node", None, got.node_name)
    preemption = want.preemption or Preemption()
    if preemption.chosen:
        if got.nominated_node is None or not _as_good(preemption, got.nominated_node, standing):
            wanted = _shown(preemption.chosen)
            yield f"nominated node: want one of {wanted}, got {_shown(got.nominated_node)}"
            return
        victims = tuple(victim.key for victim in got.victims)
        yield from _compare("victims", preemption.candidates[got.nominated_node].victims, victims)
    else:
        after = preemption.message or (preemption.ineligible and f"preemption: {preemption.ineligible}")
        # In between stand the reasons of other PostFilter plugins, which the cases do not have.
        if not (got.message.startswith(want.message) and got.message.endswith(after)):
            yield f"message: want {want.message!r} and {after!r}, got {got.message!r}"


def _differences(want: Want, got: Trace, standing: Standing) -> Iterator[str]:
    if got.error:
        yield f"error: {got.error}"
    yield from _compare("preFilter", want.pre_filter, got.prefilter and _rejection(got.prefilter))
    yield from _compare(
        "nodeNames", _wanted_narrowing(want), None if got.narrowed is None else _sorted(got.narrowed)
    )
    yield from _compare_maps(
        "filter",
        {node: _settled(rejection) for node, rejection in want.filter.items()},
        {node: _settled(_rejection(status)) for node, status in got.rejected.items()},
    )
    yield from _compare("feasible", _sorted(want.feasible), _sorted(got.feasible))
    yield from _compare_maps("scores", want.scores, _scores(got))
    yield from _compare("best", _sorted(want.best), _sorted(got.best))
    yield from _compare("message", want.message, got.message)
    yield from _compare(
        "unschedulablePlugins", _sorted(want.unschedulable_plugins), _sorted(got.unschedulable_plugins)
    )
    yield from _compare_preemption(want.preemption, got.preemption, standing)
    yield from _compare_maps("allocations", want.allocations, got.allocations)


def _compare_preemption(
    want: Preemption | None, got: PreemptionTrace | None, standing: Standing
) -> Iterator[str]:
    if want is None or got is None:
        yield from _compare("preemption", want, got)
        return
    yield from _compare("preemption.ineligible", want.ineligible, got.ineligible)
    candidates = {
        node: Candidate(victims.pods, victims.pdb_violations) for node, victims in got.candidates.items()
    }
    yield from _compare_maps("preemption.candidates", want.candidates, candidates)
    chosen = {name for name in got.chosen if name in want.chosen or not _as_good(want, name, standing)}
    yield from _compare("preemption.chosen", _sorted(want.chosen), _sorted(tuple(chosen)))
    yield from _compare("preemption.message", want.message, got.message)


def _as_good(want: Preemption, node: str, standing: Standing) -> bool:
    """Whether a node is one of the right ones. kube-scheduler draws among equals, and was asked a few
    times: a node that it cannot tell from one that was drawn is as right."""
    if node in want.chosen:
        return True
    candidate = want.candidates.get(node)
    return candidate is not None and any(
        other.violations == candidate.violations and standing(other.victims) == standing(candidate.victims)
        for other in map(want.candidates.__getitem__, want.chosen)
    )


def _compare(what: str, want: object, got: object) -> Iterator[str]:
    if want != got:
        yield f"{what}: want {_shown(want)}, got {_shown(got)}"


def _compare_maps(what: str, want: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[str]:
    """Per key, so that one wrong node does not hide behind all the right ones."""
    for key in sorted(want.keys() | got.keys()):
        one, other = want.get(key), got.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _compare_maps(f"{what}[{key}]", one, other)
        else:
            yield from _compare(f"{what}[{key}]", one, other)


def _wanted_narrowing(want: Want) -> tuple[str, ...] | None:
    return _sorted(want.node_names) if want.narrowed else None


def _scores(got: Trace) -> dict[str, dict[str, int]]:
    return {
        node: {name: score.weighted for name, score in scores.items()} | {"total": got.totals[node]}
        for node, scores in got.scores.items()
    }


def _rejection(status: Status) -> Rejection:
    return Rejection(status.plugin, status.code.label, status.reasons)


def _settled(rejection: Rejection) -> Rejection:
    """With the reasons of extended resources sorted: upstream gives them in the order of a Go map, last."""
    unordered = {
        reason
        for reason in rejection.reasons
        if reason.startswith(_INSUFFICIENT) and reason not in _FIXED_ORDER
    }
    if len(unordered) < 2:
        return rejection
    ordered = tuple(reason for reason in rejection.reasons if reason not in unordered)
    return Rejection(rejection.plugin, rejection.code, ordered + tuple(sorted(unordered)))


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, Rejection):
        return f"{value.plugin or 'nobody'} {value.code} {_shown(value.reasons)}"
    if isinstance(value, Candidate):
        return f"{_shown(value.victims)} with {value.violations} violations"
    return "nothing" if value is None else repr(value)
