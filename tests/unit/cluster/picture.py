"""Everything derived from a cluster's objects, in a form that two clusters can be compared by."""

from __future__ import annotations

from typing import Any

from stowplan.cluster import Cluster, Nodes
from stowplan.cluster.matching import SelectedPods
from stowplan.objects import HostPort, LabelSelector
from stowplan.objects.selectors import compile_selector

MATCHERS = [
    SelectedPods(None, compile_selector(LabelSelector(match_labels={"app": value}))) for value in ("a", "b")
]
LABEL_KEYS = ("zone", "disk")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu")
PORTS = (80, 81)


def picture(cluster: Cluster) -> dict[str, Any]:
    """What every column, index and table says, by node name."""
    nodes = cluster.nodes
    names = nodes.names
    counted = {
        (matcher, too): nodes.count(cluster.counters.counter(matcher, terminating_too=too))
        for matcher in MATCHERS
        for too in (False, True)
    }
    return {
        "nodes": {
            name: {
                "allocatable": {r: nodes.allocatable(r)[i].item() for r in RESOURCES},
                "requested": {r: nodes.requested(r)[i].item() for r in RESOURCES},
                "free": {r: nodes.free(r)[i].item() for r in RESOURCES},
                "nonzero": [column[i].item() for column in nodes.nonzero_requested],
                "count": nodes.pod_count[i].item(),
                "pods": {pod.uid: pod for pod in nodes[i].pods},
                "labels": {key: _label(nodes, key, i) for key in LABEL_KEYS},
                "taints": cluster.table.taints.sets[cluster.table.taint_numbers[i]],
                "unschedulable": bool(nodes.unschedulable[i]),
                "matching": {key: column[i].item() for key, column in counted.items()},
                "ports": {p for p in PORTS if cluster.row_of(name) in _rows_with_port(cluster, p)},
            }
            for i, name in enumerate(names)
        },
        "terms": {
            (entry.term, names[row]): count
            for entry in cluster.terms.entries()
            for row, count in entry.rows.items()
        },
        "images": {
            name: {names[row] for row in state.rows}
            for name in ("x:1", "y:1")
            if (state := cluster.table.images.get(name)) is not None
        },
        "pods": cluster.pods,
        "assumed": cluster.assumed,
        "nominated": {
            pod.uid: name for name in cluster.nominations.nodes() for pod in cluster.nominations.on(name)
        },
        "namespaces": {space.name: space for space in cluster.namespaces},
    }


def exact_places(cluster: Cluster) -> Any:
    """Which row each node has, and the order of a partial search: a trial must not change these either."""
    return cluster.nodes.names[:], cluster.order.names(), dict(cluster.table.rows)


def _label(nodes: Nodes, key: str, position: int) -> str | None:
    number = nodes.label_ids(key)[position].item()
    return nodes.label_values(key)[number] if number >= 0 else None


def _rows_with_port(cluster: Cluster, port: int) -> set[int]:
    return set(cluster.ports.rows_in_conflict(HostPort("TCP", "0.0.0.0", port)))


def fresh_copy(cluster: Cluster) -> Cluster:
    """A cluster built from scratch from the same objects, in another order."""
    copy = Cluster()
    for pod in sorted(cluster.pods.values(), key=lambda pod: pod.uid):
        if pod.uid not in cluster.assumed:
            copy.add(pod)
    for node in sorted(cluster.table.nodes, key=lambda node: node.name, reverse=True):
        copy.add(node)
    for uid, pod in cluster.assumed.items():
        copy.assume(pod, pod.node_name)
        assert copy.pods[uid] == pod
    for space in cluster.namespaces:
        copy.add(space)
    for name in cluster.nominations.nodes():
        for pod in cluster.nominations.on(name):
            copy.nominations.add(pod, name)
    return copy


def columns_of(cluster: Cluster) -> list[list[int]]:
    """All usage, without the columns of resources that nobody uses: equal before and after a trial."""
    columns = cluster.table.all_usage[:, : cluster.table.size].tolist()
    return [column for column in columns if any(column)]
