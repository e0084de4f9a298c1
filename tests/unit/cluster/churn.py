"""Random changes of a small cluster, for what must stay right whatever happens."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.testing.builders import PodBuilder, make_node, make_pod

Step = Callable[[Cluster], None]
APPS = ("a", "b")
SPACES = ("default", "other")
NODES = tuple(f"n{i}" for i in range(5))
ZONES = ("x", "y", "", None)
KEYS = ("zone", "kubernetes.io/hostname")


def node_step(name: str, zone: str | None, tainted: bool) -> Step:
    builder = make_node(name).labels({"kubernetes.io/hostname": name})
    if zone is not None:
        builder.labels(zone=zone)
    if tainted:
        builder.taint("busy")
    node = builder.build()
    return lambda cluster: cluster.add(node)


def remove_node_step(name: str) -> Step:
    return lambda cluster: cluster.remove_node(name)


def pod_step(number: int, space: str, app: str, terms: tuple[str, ...], node: str, terminating: bool) -> Step:
    pod = pod_with_terms(f"p{number}", space, app, terms).on_node(node)
    if terminating:
        pod.terminating()
    built = pod.uid(f"u{number}").build()
    return lambda cluster: cluster.add(built)


def remove_pod_step(number: int) -> Step:
    return lambda cluster: cluster.remove_pod(f"u{number}")


def pod_with_terms(name: str, space: str, app: str, terms: tuple[str, ...]) -> PodBuilder:
    """A pod that wants to be near to (+) or far from (-) another app, in a domain: `+a zone`; with a
    weight where it only would like to: `-a zone 5`."""
    pod = make_pod(name, space).labels(app=app)
    for term in terms:
        other, key, *weight = term[1:].split()
        wanted = pod.pod_affinity if term[0] == "+" else pod.pod_anti_affinity
        wanted(key, {"app": other}, weight=int(weight[0]) if weight else 0)
    return pod


terms = st.lists(
    st.builds(
        "{}{} {}{}".format,
        st.sampled_from("+-"),
        st.sampled_from(APPS),
        st.sampled_from(KEYS),
        st.sampled_from(["", " 5", " 7"]),
    ),
    max_size=2,
).map(tuple)

steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(node_step, st.sampled_from(NODES), st.sampled_from(ZONES), st.booleans()),
    st.builds(
        pod_step,
        st.integers(0, 9),
        st.sampled_from(SPACES),
        st.sampled_from(APPS),
        terms,
        st.sampled_from(NODES),
        st.booleans(),
    ),
    st.builds(remove_pod_step, st.integers(0, 9)),
    st.builds(remove_node_step, st.sampled_from(NODES)),
)

clusters = st.lists(
    st.builds(node_step, st.sampled_from(NODES), st.sampled_from(ZONES), st.booleans()),
    min_size=2,
    max_size=6,
)
