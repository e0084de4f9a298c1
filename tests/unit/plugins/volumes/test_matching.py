"""Which volume a claim gets: the promised one, or the smallest that will do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster, NodeRow
from stowplan.objects import PersistentVolume, PersistentVolumeClaim
from stowplan.plugins.volumes.assumed import Assumed
from stowplan.plugins.volumes.matching import NO_VOLUME, Matching
from stowplan.plugins.volumes.shelves import Shelves
from tests.unit.plugins.volumes.world import ZONE, a_claim, a_volume, world

HOST = "kubernetes.io/hostname"
NODES = {f"n{i}": {HOST: f"n{i}", ZONE: "ab"[i % 2]} for i in range(4)} | {"bare": {}}


def chosen(cluster: Cluster, *claims: PersistentVolumeClaim) -> list[dict[str, str]]:
    """For each claim, the volume that it gets on every node where it gets one."""
    matching = Matching(Shelves(Assumed(cluster.volumes)), cluster.nodes)
    columns = [matching.choose(claim).tolist() for claim in claims]
    return [
        {
            name: matching.volume(number).name
            for name, number in zip(cluster.nodes.names, column, strict=True)
            if number != NO_VOLUME
        }
        for column in columns
    ]


def everywhere(name: str) -> dict[str, str]:
    return dict.fromkeys(NODES, name)


def test_the_smallest_that_is_large_enough() -> None:
    volumes = [a_volume(name, size=size) for name, size in (("l", "9Gi"), ("m", "6Gi"), ("s", "1Gi"))]
    assert chosen(world(*volumes, nodes=NODES), a_claim("c", size="5Gi")) == [everywhere("m")]


def test_every_node_gets_what_can_be_reached_from_it() -> None:
    cluster = world(
        a_volume("on-n0", size="6Gi", on={HOST: ["n0"]}),
        a_volume("on-n1", size="8Gi", on={HOST: ["n1", "gone"]}),
        a_volume("in-b", size="7Gi", on={ZONE: ["b"]}),
        a_volume("both", size="5Gi", on={HOST: ["n2"], ZONE: ["a"]}),
        nodes=NODES,
    )
    assert chosen(cluster, a_claim("c")) == [{"n0": "on-n0", "n1": "in-b", "n2": "both", "n3": "in-b"}]


def test_claims_of_one_pod_get_different_volumes() -> None:
    cluster = world(
        a_volume("x", size="6Gi", on={HOST: ["n0"]}),
        a_volume("y", size="7Gi", on={ZONE: ["a"]}),
        a_volume("z", size="8Gi"),
        nodes=NODES,
    )
    assert chosen(cluster, a_claim("c"), a_claim("d"), a_claim("e")) == [
        {**everywhere("z"), "n0": "x", "n2": "y"},
        {"n0": "y", "n2": "z"},
        {"n0": "z"},
    ]


def test_a_promised_volume_is_the_only_choice_of_its_claim_even_where_it_cannot_be_reached() -> None:
    cluster = world(
        a_volume("free", size="6Gi"),
        a_volume("mine", size="9Gi", claim="c", phase="Bound", modes=["ReadOnlyMany"], on={ZONE: ["a"]}),
        nodes=NODES,
    )
    assert chosen(cluster, a_claim("c")) == [{"n0": "mine", "n2": "mine"}]
    assert chosen(cluster, a_claim("d")) == [everywhere("free")]


def test_a_volume_promised_to_an_earlier_claim_of_that_name_is_not_meant() -> None:
    cluster = world(a_volume("old", claim="c", claim_uid="before"), nodes=NODES)
    assert chosen(cluster, a_claim("c")) == [{}]
    cluster.add(a_volume("old", claim="c", claim_uid="uid-c"))
    assert chosen(cluster, a_claim("c")) == [everywhere("old")]


def test_a_promised_volume_that_is_too_small_is_left() -> None:
    cluster = world(a_volume("small", size="1Gi", claim="c"), a_volume("free"), nodes=NODES)
    assert chosen(cluster, a_claim("c")) == [everywhere("free")]


def refused(claim: PersistentVolumeClaim, **volume: Any) -> bool:
    return chosen(world(a_volume("v", **volume), nodes=NODES), claim) == [{}]


def test_what_a_volume_must_be_like() -> None:
    assert not refused(a_claim("c"))
    assert refused(a_claim("c"), storage_class="other")
    assert not refused(
        a_claim("c"), storage_class="other", annotations={"volume.beta.kubernetes.io/storage-class": "wait"}
    )
    assert refused(a_claim("c"), phase="Released")
    assert refused(
        a_claim("c"), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    )
    assert refused(a_claim("c", modes=["ReadWriteMany"]))
    assert not refused(a_claim("c", modes=["ReadWriteMany"]), modes=["ReadWriteOnce", "ReadWriteMany"])
    assert refused(a_claim("c"), volumeMode="Block")
    assert not refused(a_claim("c", volumeMode="Block"), volumeMode="Block")
    assert not refused(a_claim("c", volumeMode="Filesystem"))
    assert refused(a_claim("c"), volumeAttributesClassName="gold")
    assert refused(a_claim("c", volumeAttributesClassName="gold"))
    assert not refused(a_claim("c", volumeAttributesClassName="gold"), volumeAttributesClassName="gold")
    wants_fast = a_claim("c", selector={"matchLabels": {"tier": "fast"}})
    assert refused(wants_fast)
    assert not refused(wants_fast, labels={"tier": "fast"})
    assert not refused(a_claim("c", size=None))


# The columns against the rule, written plainly

sizes = st.permutations([f"{size}Gi" for size in range(1, 9)])
places = st.sampled_from(
    [None, {HOST: ["n0"]}, {HOST: ["n1", "n2"]}, {ZONE: ["a"]}, {HOST: ["n3"], ZONE: ["b"]}]
)
wanted = st.lists(st.sampled_from(["1Gi", "3Gi", "6Gi"]), min_size=1, max_size=3)


def plainly(cluster: Cluster, node: NodeRow, claims: list[PersistentVolumeClaim]) -> list[str | None]:
    taken: list[str] = []
    found: list[str | None] = []
    for claim in claims:
        fits = [
            volume
            for volume in sorted(cluster.volumes, key=size_of)
            if size_of(volume) >= size_of(claim) and volume.name not in taken and reachable(volume, node)
        ]
        found.append(fits[0].name if fits else None)
        taken += [fits[0].name] if fits else []
    return found


def size_of(thing: PersistentVolume | PersistentVolumeClaim) -> int:
    amounts = thing.spec.capacity if isinstance(thing, PersistentVolume) else thing.spec.resources.requests
    return int(str(amounts["storage"]).removesuffix("Gi"))


def reachable(volume: PersistentVolume, node: NodeRow) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    (term,) = affinity.required.node_selector_terms
    return all(node.labels.get(each.key) in each.values for each in term.match_expressions)


@settings(max_examples=100)
@given(st.lists(places, max_size=8), sizes, wanted)
def test_the_columns_choose_as_the_plain_rule_does(
    where: list[Any], volume_sizes: list[str], asked: list[str]
) -> None:
    volumes = [
        a_volume(f"v{number}", size=volume_sizes[number], on=place) for number, place in enumerate(where)
    ]
    cluster = world(*volumes, nodes=NODES)
    claims = [a_claim(f"c{number}", size=size) for number, size in enumerate(asked)]
    by_claim = chosen(cluster, *claims)
    for node in cluster.nodes:
        assert [found.get(node.name) for found in by_claim] == plainly(cluster, node, claims)
