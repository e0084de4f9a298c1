"""Remembered answers equal fresh ones, whatever changes in between.

A decision within a trial uses no memory, so the same question inside and outside of one must have the same
answer: node, number of nodes that fit, and the words when there is none.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.engine import Decision
from stowplan.objects import Node, Pod, Service
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.deciding import scheduler

APPS = st.sampled_from(["a", "b"])
NODES = [f"n{i}" for i in range(9)]


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    builder = make_node(draw(st.sampled_from(NODES)))
    builder.capacity(cpu=draw(st.integers(1, 4)), memory="4Gi", pods=draw(st.integers(1, 6)))
    builder.labels({"kubernetes.io/hostname": builder.manifest["metadata"]["name"]})
    zone = draw(st.sampled_from(["", "z1", "z2", "z3"]))
    if zone:
        builder.labels({"topology.kubernetes.io/zone": zone})
    if draw(st.integers(0, 3)) == 0:
        builder.taint("gpu", effect=draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"])))
    if draw(st.integers(0, 4)) == 0:
        builder.unschedulable()
    if draw(st.booleans()):
        builder.labels(disk=draw(st.sampled_from(["ssd", "hdd"])))
    if draw(st.booleans()):
        builder.image("app:1", size=500 << 20)
    return builder.build()


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, object]:
    """What tells one kind of pod from another; a few kinds are decided again and again."""
    builder = make_pod("shape").labels(app=draw(APPS)).image("app:1")
    builder.requests(cpu=draw(st.sampled_from(["0", "500m", "1", "9"])))
    match draw(st.integers(0, 9)):
        case 0:
            builder.spread("topology.kubernetes.io/zone", app=draw(APPS), max_skew=draw(st.integers(1, 2)))
        case 1:
            builder.spread("topology.kubernetes.io/zone", app=draw(APPS), hard=False)
        case 2:
            builder.pod_anti_affinity("kubernetes.io/hostname", app=draw(APPS))
        case 3:
            builder.pod_affinity("topology.kubernetes.io/zone", app=draw(APPS))
        case 4:
            builder.pod_affinity("topology.kubernetes.io/zone", app=draw(APPS), weight=10)
        case 5:
            builder.require_nodes("disk", "ssd")
        case 6:
            builder.prefer_nodes(5, "disk", "ssd")
        case 7:
            builder.tolerate("gpu")
        case 8:
            builder.host_port(80)
    if draw(st.integers(0, 4)) == 0:
        builder.priority(draw(st.sampled_from([-1, 10])))
    return builder.manifest


Step = tuple[str, object]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), nodes()),
        st.tuples(st.just("drop node"), st.sampled_from(NODES)),
        st.tuples(st.just("decide"), st.integers(0, 3)),
        st.tuples(st.just("decide and place"), st.integers(0, 3)),
        st.tuples(st.just("decide and place"), st.integers(0, 3)),
        st.tuples(st.just("drop pod"), st.integers(0, 20)),
        st.tuples(st.just("nominate"), st.tuples(st.integers(0, 3), st.sampled_from(NODES))),
        st.tuples(st.just("drop nomination"), st.integers(0, 20)),
        st.tuples(st.just("service"), APPS),
    ),
    max_size=40,
)


def pod_like(shape: dict[str, object], number: int) -> Pod:
    builder = make_pod(f"p{number}")
    builder.manifest["spec"] = shape["spec"]
    builder.manifest["metadata"]["labels"] = shape["metadata"]["labels"]  # type: ignore[index]
    return builder.build()


def summary(decision: Decision) -> tuple[object, ...]:
    return (
        decision.node_name,
        decision.feasible,
        decision.message,
        decision.nominated_node,
        [victim.key for victim in decision.victims],
    )


@settings(max_examples=120)
@given(st.lists(nodes(), min_size=3, max_size=9), st.lists(shapes(), min_size=4, max_size=4), steps)
def test_remembered_answers_equal_fresh_ones_after_any_changes(
    first: list[Node], kinds: list[dict[str, object]], changes: list[Step]
) -> None:
    cluster = Cluster()
    for node in first:
        cluster.add(node)
    core = scheduler(cluster)
    for number, (act, what) in enumerate(changes):
        match act, what:
            case "node", Node():
                cluster.add(what)
            case "drop node", str():
                cluster.remove_node(what)
            case "service", str():
                cluster.add(make_object(Service, f"svc-{what}", spec={"selector": {"app": what}}))
            case "drop pod", int():
                cluster.remove_pod(f"default/p{what}")
            case "nominate", (int() as kind, str() as name):
                cluster.nominations.add(pod_like(kinds[kind], number), name)
            case "drop nomination", int():
                cluster.nominations.remove(f"default/p{what}")
            case _, int():
                pod = pod_like(kinds[what], number)
                decision = core.decide(pod)
                with cluster.trial():
                    fresh = core.decide(pod)
                assert summary(decision) == summary(fresh)
                if act == "decide and place" and decision.node_name:
                    cluster.assume(pod, decision.node_name)
