"""What nominated pods will use is always what adding them up anew gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod

UIDS = st.integers(0, 5)
NODES = st.sampled_from(["a", "b", "c"])
KINDS: list[tuple[int, dict[str, int | str | float]]] = [
    (0, {"cpu": 1}),
    (5, {"memory": "1Gi"}),
    (5, {"cpu": 2, "example.com/gpu": 1}),
    (9, {}),
]


def pod_of(uid: int, kind: int) -> Pod:
    priority, requests = KINDS[kind]
    return make_pod(f"p{uid}").requests(requests).priority(priority).build()


def added_up(cluster: Cluster, pod: Pod) -> dict[str, list[int]]:
    sums = {}
    for name in cluster.nominations.nodes():
        others = cluster.nominations.counting_against(pod, name)
        if others and cluster.row_of(name) is not None:
            sums[name] = [cluster.table.usage_of(other) for other in others]
    width = len(cluster.table.resources)
    return {
        name: np.sum([np.pad(usage, (0, width - len(usage))) for usage in usages], axis=0).tolist()
        for name, usages in sums.items()
    }


steps = st.lists(
    st.one_of(
        st.tuples(st.just("nominate"), UIDS, st.integers(0, 3), NODES),
        st.tuples(st.just("end"), UIDS, st.just(0), st.just("")),
        st.tuples(st.just("ask"), UIDS, st.integers(0, 3), st.just("")),
        st.tuples(st.sampled_from(("come", "go")), st.just(0), st.just(0), NODES),
    )
)


@given(steps)
def test_sums_are_kept_right_whatever_changes(changes: list[tuple[str, int, int, str]]) -> None:
    cluster = Cluster()
    cluster.add(make_node("a").build())
    for act, uid, kind, node in changes:
        pod = pod_of(uid, kind)
        if act == "nominate":
            cluster.nominations.add(pod, node)
        elif act == "end":
            cluster.nominations.remove(pod.uid)
        elif act == "come":
            cluster.add(make_node(node).build())
        elif act == "go":
            cluster.remove_node(node)
        else:
            rows, usage = cluster.promised.counting_against(pod)
            # Only now: adding up the pods gave each resource that they ask for its column.
            width = len(cluster.table.resources)
            padded = np.pad(usage, ((0, width - len(usage)), (0, 0))).T.tolist()
            names = [cluster.table.nodes[row].name for row in rows.tolist()]
            assert dict(zip(names, padded, strict=True)) == added_up(cluster, pod)


def test_nothing_is_kept_of_nominations_that_are_over() -> None:
    cluster = Cluster()
    for number in range(100):
        cluster.add(make_node(f"n{number}").build())
        cluster.nominations.add(pod_of(0, number % 4), f"n{number}")
        cluster.promised.counting_against(make_pod("asking").priority(number).build())
    cluster.nominations.remove(pod_of(0, 0).uid)
    assert not list(cluster.nominations.nodes())
    assert not cluster.promised.counting_against(make_pod("asking").build()).rows.size
    assert len(cluster.promised._levels) <= 16
