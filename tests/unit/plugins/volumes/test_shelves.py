"""Shelves that are kept equal shelves that are filled afresh, with what is assumed on top."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.objects import PersistentVolume
from stowplan.plugins.volumes.assumed import Assumed
from stowplan.plugins.volumes.matching import Matching
from stowplan.plugins.volumes.shelves import Shelves
from stowplan.plugins.volumes.writing import bound_to
from tests.unit.plugins.volumes.world import ZONE, a_claim, a_volume, world

CLAIM, OTHER = a_claim("c"), a_claim("d", storage_class="other")
names = st.sampled_from(["v0", "v1", "v2"])
places = st.sampled_from([None, {ZONE: ["a"]}, {ZONE: ["a", "b"]}, {ZONE: ["b"], "disk": ["ssd"]}])
classes = st.sampled_from(["wait", "other"])
phases = st.sampled_from(["Available", "Available", "Bound"])
changes = st.one_of(
    st.tuples(st.just("put"), names, places, classes, phases),
    st.tuples(st.just("put"), names, places, classes, phases),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("assume"), names),
    st.tuples(st.just("restore"), names),
)


def carry_out(
    cluster: Cluster, volumes: Assumed[PersistentVolume], change: tuple[Any, ...], step: int
) -> None:
    match change:
        case ("put", name, place, class_name, phase):
            version = {"resourceVersion": str(step)}
            cluster.add(a_volume(name, on=place, storage_class=class_name, phase=phase, metadata=version))
        case ("remove", name):
            cluster.remove(a_volume(name))
        case ("assume", name):
            volume = volumes.get(name)
            stored = cluster.volumes.get(name)
            if volume is not None and volume is stored:
                volumes.assume(stored, bound_to(stored, OTHER))
        case ("restore", name):
            volume = volumes.get(name)
            if volume is not None:
                volumes.restore(volume)


def offered(shelves: Shelves, cluster: Cluster) -> list[set[str]]:
    """For both claims, the volumes that some node is offered, asked again until nothing is left."""
    found = []
    for claim in (CLAIM, OTHER):
        matching = Matching(shelves, cluster.nodes)
        numbers = {number for _ in range(4) for number in matching.choose(claim).tolist() if number >= 0}
        found.append({f"{matching.volume(number).name} {matching.volume(number)}" for number in numbers})
    return found


@settings(max_examples=100)
@given(st.lists(st.lists(changes, max_size=4), max_size=8))
def test_what_is_kept_is_what_would_be_found_now(history: list[list[tuple[Any, ...]]]) -> None:
    cluster = world(nodes={"na": {ZONE: "a"}, "nb": {ZONE: "b", "disk": "ssd"}})
    volumes: Assumed[PersistentVolume] = Assumed(cluster.volumes)
    shelves = Shelves(volumes)
    for step, several in enumerate(history):
        for change in several:
            carry_out(cluster, volumes, change, step)
        assert offered(shelves, cluster) == offered(Shelves(volumes), cluster)


def test_the_order_of_promises_does_not_matter() -> None:
    cluster = world(
        a_volume("v1", storage_class="other"), a_volume("v2", storage_class="other"), nodes={"na": {}}
    )
    volumes: Assumed[PersistentVolume] = Assumed(cluster.volumes)
    shelves = Shelves(volumes)
    for name in ("v2", "v1"):
        stored = cluster.volumes.get(name)
        assert stored is not None
        volumes.assume(stored, bound_to(stored, OTHER))
        shelves.of_class("other")
    matching = Matching(shelves, cluster.nodes)
    assert [matching.volume(number).name for number in matching.choose(OTHER).tolist()] == ["v1"]


def test_an_assumed_object_ends_with_the_next_version_or_when_it_is_restored() -> None:
    before = a_volume("v")
    cluster = world(before, nodes={})
    volumes: Assumed[PersistentVolume] = Assumed(cluster.volumes)
    promised = bound_to(before, CLAIM)
    volumes.assume(before, promised)
    assert volumes.get("v") is promised
    cluster.add(a_volume("v"))
    assert volumes.get("v") is promised
    volumes.restore(msgspec.structs.replace(promised))
    assert volumes.get("v") is promised
    volumes.restore(promised)
    assert volumes.get("v") is cluster.volumes.get("v")
    volumes.assume(before, promised)
    newer = a_volume("v", metadata={"resourceVersion": "4"})
    cluster.add(newer)
    assert volumes.get("v") is newer
    cluster.remove(newer)
    assert volumes.get("v") is None


def test_objects_without_a_version_end_with_any_news() -> None:
    blank = {"resourceVersion": ""}
    before = a_volume("v", metadata=blank)
    cluster = world(before, nodes={})
    volumes: Assumed[PersistentVolume] = Assumed(cluster.volumes)
    volumes.assume(before, bound_to(before, CLAIM))
    news = a_volume("v", metadata=blank)
    cluster.add(news)
    assert volumes.get("v") is news
