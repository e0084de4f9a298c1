"""Decides a small bundled cluster and shows which pod goes where, and why.

The cluster has six nodes in two zones and twelve waiting pods: some plain, some that must be spread, kept
apart or kept together, one that makes others give way, one that fits nowhere. Every answer is decided on
the spot, by the same code that schedules a real cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from stowplan.cli.tables import render_table

if TYPE_CHECKING:
    from stowplan.engine import Decision, Scheduler, Trace
    from stowplan.objects import Pod

DESCRIPTION = "kubernetes.io/description"


@dataclass(frozen=True)
class Outcome:
    """What came of one pod."""

    pod: str
    asks: str
    node: str | None
    feasible: int
    nodes: int
    evicts: tuple[str, ...]
    reason: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="how to show it (default: table)"
    )


def run(arguments: argparse.Namespace) -> int:
    manifests = files("stowplan.cli").joinpath("demo_cluster.yaml").read_bytes()
    outcomes = decide_all(manifests)
    if arguments.output == "json":
        json.dump({"outcomes": [asdict(outcome) for outcome in outcomes]}, sys.stdout, indent=2)
        print()
    else:
        print(as_text(outcomes))
    return 0


def decide_all(manifests: bytes) -> list[Outcome]:
    """Decides every pod of the manifests that has no node yet, the most important first."""
    from stowplan.cli.manifests import cluster_with
    from stowplan.engine import Scheduler
    from stowplan.objects import Pod, decode_yaml

    objects = decode_yaml(manifests)
    waiting = [obj for obj in objects if isinstance(obj, Pod) and not obj.node_name]
    waiting.sort(key=lambda pod: -pod.spec.priority)
    scheduler = Scheduler(cluster_with(objects))
    outcomes = [_decide(scheduler, pod) for pod in waiting]
    scheduler.close()
    return outcomes


def _decide(scheduler: Scheduler, pod: Pod) -> Outcome:
    """One pod's way, carried out: it goes to its node, and whoever must give way goes first."""
    from stowplan.engine.explain import held_back

    kept_out = held_back(scheduler.profiles[pod.spec.scheduler_name], pod)
    if kept_out is not None:
        return _outcome(scheduler, pod, None, kept_out.message)
    decision = scheduler.decide(pod)
    victims = decision.victims
    if decision.nominated_node:
        for victim in victims:
            scheduler.cluster.remove_pod(victim.uid)
        decision = scheduler.decide(pod)
    if decision.node_name is None:
        return _outcome(scheduler, pod, decision, decision.message)
    reason = _why(scheduler.explain(pod), decision)
    if victims:
        reason = f"{', '.join(victim.name for victim in victims)} had to go; then {reason}"
    scheduler.cluster.assume(pod, decision.node_name)
    return _outcome(scheduler, pod, decision, reason, victims)


def _why(trace: Trace, decision: Decision) -> str:
    """Why this node, told with the runner-up."""
    chosen = str(decision.node_name)
    if len(trace.feasible) == 1:
        return "the only node that fits"
    score = trace.totals[chosen]
    others = {name: total for name, total in trace.totals.items() if name != chosen}
    second = max(others, key=lambda name: others[name])
    fits = f"best of {len(trace.feasible)} that fit: score {score}"
    return f"{fits}, as good as {second}" if others[second] == score else f"{fits}, {second} {others[second]}"


def _outcome(
    scheduler: Scheduler, pod: Pod, decision: Decision | None, reason: str, victims: Sequence[Pod] = ()
) -> Outcome:
    return Outcome(
        pod=pod.key,
        asks=pod.annotations.get(DESCRIPTION, ""),
        node=decision.node_name if decision else None,
        feasible=decision.feasible if decision else 0,
        nodes=scheduler.cluster.nodes.size,
        evicts=tuple(victim.key for victim in victims),
        reason=reason,
    )


def as_text(outcomes: Sequence[Outcome]) -> str:
    rows = [(outcome.pod, outcome.asks, outcome.node or "-", outcome.reason) for outcome in outcomes]
    placed = sum(outcome.node is not None for outcome in outcomes)
    evicted = sum(len(outcome.evicts) for outcome in outcomes)
    summary = (
        f"{len(outcomes)} pods waited: {placed} placed, {len(outcomes) - placed} not, {evicted} evicted."
    )
    return render_table(("POD", "ASKS FOR", "NODE", "WHY"), rows) + f"\n\n{summary}"
