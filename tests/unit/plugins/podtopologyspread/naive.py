"""Spreading by the book: node by node and pod by pod, without columns or memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import floor, log

from stowplan.cluster import Cluster
from stowplan.objects import (
    Node,
    Pod,
    Selector,
    TopologySpreadConstraint,
    compile_selector,
    find_untolerated,
)

HOSTNAME = "kubernetes.io/hostname"
REASON = "node(s) didn't match pod topology spread constraints"


def selector_of(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    same = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}
    return compile_selector(constraint.label_selector).also(same)


def own(pod: Pod, action: str) -> list[tuple[TopologySpreadConstraint, Selector]]:
    return [
        (constraint, selector_of(constraint, pod))
        for constraint in pod.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == action
    ]


def included(constraint: TopologySpreadConstraint, pod: Pod, node: Node) -> bool:
    honors_affinity = constraint.node_affinity_policy in (None, "Honor")
    if honors_affinity and not pod.spec.required_node_affinity.matches(node.labels, node.name):
        return False
    taints = node.spec.taints if constraint.node_taints_policy == "Honor" else ()
    return find_untolerated(taints, pod.spec.tolerations) is None


def matching(pods: Sequence[Pod], selector: Selector, namespace: str) -> int:
    if selector.empty:
        return 0
    return sum(
        not pod.terminating and pod.namespace == namespace and selector.matches(pod.labels) for pod in pods
    )


def rejections(cluster: Cluster, pod: Pod) -> list[str | None]:
    """For every node why it may not take the pod."""
    constraints = own(pod, "DoNotSchedule")
    keys = [constraint.topology_key for constraint, _ in constraints]
    counts: list[Counter[str]] = [Counter() for _ in constraints]
    for node in cluster.nodes:
        if all(key in node.labels for key in keys):
            for count, (constraint, selector) in zip(counts, constraints, strict=True):
                if included(constraint, pod, node.node):
                    count[node.labels[constraint.topology_key]] += matching(
                        node.pods, selector, pod.namespace
                    )
    found: list[str | None] = []
    for node in cluster.nodes:
        reason = None
        for count, (constraint, selector) in zip(counts, constraints, strict=True):
            if constraint.topology_key not in node.labels:
                reason = f"{REASON} (missing required label)"
                break
            needed = 1 if constraint.min_domains is None else constraint.min_domains
            lowest = 0 if len(count) < needed else min(count.values())
            here = count[node.labels[constraint.topology_key]] if count else 0
            if here + selector.matches(pod.labels) - lowest > constraint.max_skew:
                reason = REASON
                break
        found.append(reason)
    return found


def scores(
    cluster: Cluster,
    pod: Pod,
    rows: Sequence[int],
    constraints: Sequence[tuple[TopologySpreadConstraint, Selector]],
    every_key: bool = True,
) -> tuple[list[int], list[int]]:
    """For the nodes that can take the pod: raw scores, and scores as they count."""
    nodes = list(cluster.nodes)
    keys = [constraint.topology_key for constraint, _ in constraints]
    ignored = {row for row in rows if every_key and not all(key in nodes[row].labels for key in keys)}
    total = [0.0] * len(nodes)
    for constraint, selector in constraints:
        key = constraint.topology_key
        seen = {nodes[row].labels.get(key, "") for row in rows if row not in ignored}
        size = len(rows) - len(ignored) if key == HOSTNAME else len(seen)
        counts: Counter[str] = Counter()
        for node in nodes:
            complete = all(k in node.labels for k in keys)
            if (complete or not every_key) and included(constraint, pod, node.node):
                counts[node.labels.get(key, "")] += matching(node.pods, selector, pod.namespace)
        for row in rows:
            node = nodes[row]
            if row not in ignored and key in node.labels:
                on_host = matching(node.pods, selector, pod.namespace)
                count = on_host if key == HOSTNAME else counts[node.labels[key]]
                total[row] += count * log(size + 2) + (constraint.max_skew - 1)
    raw = [0 if row in ignored else floor(total[row] + 0.5) for row in rows]
    judged = [score for row, score in zip(rows, raw, strict=True) if row not in ignored]
    final = []
    for row, score in zip(rows, raw, strict=True):
        if row in ignored:
            final.append(0)
        elif max(judged) == 0:
            final.append(100)
        else:
            final.append(100 * (max(judged) + min(judged) - score) // max(judged))
    return raw, final
