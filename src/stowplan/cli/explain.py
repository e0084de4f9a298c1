"""Explains where a pod of a bundle of manifests would go, and why.

The manifests (YAML or JSON, one or many files) are the cluster: nodes, placed pods, volumes, whatever there
is. What an API server would fill in (namespace, requests from limits, priority by class, ...) is filled in.
The pod is one of theirs without a node. Per node the account says which plugin rejected it first and for
what reasons, or what each plugin scored it; and where making room by preemption would help.

  kubectl get nodes,pods,pv,pvc,services -A -o yaml > cluster.yaml
  stowplan explain -f cluster.yaml default/web-0
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from stowplan.cli.files import read_file
from stowplan.cli.main import CommandError
from stowplan.cli.tables import render_table

if TYPE_CHECKING:
    from stowplan.engine import Trace
    from stowplan.framework.trace import PreemptionTrace
    from stowplan.objects import Pod

_FEW = 5
_LEGEND = "A score: as the plugin gave it > normalised > times its weight; once where these are the same."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", help="the pod to explain, as NAME or NAMESPACE/NAME")
    parser.add_argument(
        "-f", "--filename", action="append", required=True, help="a file with manifests, - for standard input"
    )
    parser.add_argument("--config", help="a KubeSchedulerConfiguration file (default: the default profile)")
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="how to show it (default: table)"
    )


def run(arguments: argparse.Namespace) -> int:
    import msgspec

    from stowplan.engine.trace import as_data

    trace = explain(arguments.filename, arguments.pod, arguments.config)
    if arguments.output == "json":
        print(msgspec.json.format(msgspec.json.encode(as_data(trace))).decode())
    else:
        print(as_text(trace))
    return 0


def explain(files: list[str], wanted: str, config: str | None) -> Trace:
    from stowplan.cli.manifests import cluster_with, read_manifests
    from stowplan.config.load import load_configuration
    from stowplan.config.problems import ConfigError
    from stowplan.config.profiles import known_plugins
    from stowplan.engine import Scheduler
    from stowplan.engine.scheduler import UnknownSchedulerError
    from stowplan.framework.registry import RegistryError, discover
    from stowplan.objects import Pod
    from stowplan.plugins import IN_TREE

    objects = read_manifests(files)
    pods = {obj.key: obj for obj in objects if isinstance(obj, Pod)}
    try:
        registry = discover(IN_TREE)
        configuration = None
        if config is not None:
            loaded = load_configuration(read_file(config), config, known_plugins(registry))
            for warning in loaded.warnings:
                print(f"{warning} (warning)", file=sys.stderr)
            configuration = loaded.configuration
        scheduler = Scheduler(cluster_with(objects), configuration, registry=registry, now=time.time)
        return scheduler.explain(_find(pods, wanted))
    except (ConfigError, RegistryError, UnknownSchedulerError) as problem:
        raise CommandError(str(problem)) from problem


def _find(pods: dict[str, Pod], wanted: str) -> Pod:
    key = wanted if "/" in wanted else f"default/{wanted}"
    pod = pods.get(key)
    if pod is None:
        pending = sorted(key for key, pod in pods.items() if not pod.node_name)
        raise CommandError(f"there is no pod {key}; pods without a node: {', '.join(pending[:20]) or 'none'}")
    if pod.node_name:
        raise CommandError(
            f"pod {key} is on {pod.node_name} already; remove spec.nodeName to ask where it could go"
        )
    return pod


def as_text(trace: Trace) -> str:
    """The account as a person wants to read it."""
    parts = [f"Pod {trace.pod}: {_outcome(trace)}"]
    if trace.prefilter is not None:
        parts.append(
            f"No node was looked at: PreFilter of {trace.prefilter.plugin} says {trace.prefilter.code.label}"
        )
    if trace.narrowed is not None:
        parts.append(
            "Only these nodes were looked at, as PreFilter plugins want it: "
            + (", ".join(trace.narrowed) or "none of those that they name exists")
        )
    if trace.search_ends_after:
        parts.append(
            f"As percentageOfNodesToScore is, a decision looks no further than {trace.search_ends_after} "
            "nodes that can take the pod. Here all nodes are looked at."
        )
    if trace.totals:
        parts.append(_score_table(trace))
    if trace.rejected:
        parts.append(_rejection_table(trace))
    if trace.allocations:
        parts.append(_allocation_table(trace))
    if trace.preemption is not None:
        parts.append(_preemption_text(trace.preemption))
    return "\n\n".join(parts)


def _outcome(trace: Trace) -> str:
    where = f"goes to {_one_of(trace.goes_to)}" if trace.goes_to else trace.message or "goes nowhere"
    if trace.promised:
        where += ", which it is nominated to"
    if trace.held_back is None:
        return where
    return f"held back by {trace.held_back.plugin}: {trace.held_back.message}. Without that: {where}"


def _one_of(nodes: tuple[str, ...]) -> str:
    few = " or ".join(nodes[:_FEW])
    return few if len(nodes) <= _FEW else f"{few} or another of {len(nodes)} that score the same"


def _score_table(trace: Trace) -> str:
    """Best nodes first."""
    plugins = list(next(iter(trace.scores.values())))
    rows = []
    for node in sorted(trace.totals, key=lambda name: (-trace.totals[name], name)):
        scores = [trace.scores[node][plugin] for plugin in plugins]
        cells = [
            ">".join(dict.fromkeys((str(score.raw), str(score.normalized), str(score.weighted))))
            for score in scores
        ]
        rows.append([node, str(trace.totals[node]), *cells])
    return render_table(["NODE", "TOTAL", *plugins], rows) + f"\n{_LEGEND}"


def _rejection_table(trace: Trace) -> str:
    rows = [
        [node, status.plugin, status.code.label, "; ".join(status.reasons)]
        for node, status in trace.rejected.items()
    ]
    return render_table(["NODE", "REJECTED BY", "CODE", "REASONS"], rows)


def _allocation_table(trace: Trace) -> str:
    rows = [
        [node, claim, ", ".join(devices)]
        for node, claims in sorted(trace.allocations.items())
        for claim, devices in sorted(claims.items())
    ]
    return render_table(["NODE", "CLAIM", "WOULD BE GIVEN"], rows)


def _preemption_text(preemption: PreemptionTrace) -> str:
    if not preemption.candidates:
        reason = preemption.ineligible or preemption.message.removeprefix("preemption: ")
        return f"Preemption would not help: {reason}"
    rows = [
        [
            node,
            "yes" if node in preemption.chosen else "",
            str(victims.pdb_violations),
            ", ".join(victims.pods),
        ]
        for node, victims in sorted(preemption.candidates.items())
    ]
    return "Preemption would help:\n" + render_table(["NODE", "BEST", "PDB VIOLATIONS", "VICTIMS"], rows)
