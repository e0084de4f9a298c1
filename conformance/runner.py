"""Runs cases through the product."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.cases import Case, Want
from conformance.compare import decision_differences, differences
from conformance.product import World
from conformance.requeue import requeue_differences


@dataclass
class Outcome:
    """What came of one case: nothing wrong, or the differences."""

    case: str
    differences: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not self.differences


def run_case(case: Case) -> Outcome:
    """Decides the pods of a case and compares. A case that breaks the product is a difference as well, and
    does not hide the others."""
    outcome = Outcome(case.id)
    if len(case.want) != len(case.pods):
        outcome.differences.append(f"{len(case.pods)} pods, but {len(case.want)} are wanted")
        return outcome
    try:
        if case.events:
            outcome.differences += requeue_differences(case)
            return outcome
        world = World(case)
        for key, want in zip(case.pods, case.want, strict=True):
            outcome.differences += judge(world, key, want)
            if case.sequence and want.placed:
                world.place(key, want.placed)
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs in the report
        outcome.differences.append(f"{type(error).__name__}: {error}")
    return outcome


def judge(world: World, key: str, want: Want) -> list[str]:
    """The differences of one pod: in the complete account, and in the quick decision."""
    if want.pod != key:
        return [f"{key}: the case wants an answer for {want.pod} here"]
    found = differences(want, world.explain(key), world.standing)
    return found + decision_differences(want, world.decide(key), world.nominated(key), world.standing)
