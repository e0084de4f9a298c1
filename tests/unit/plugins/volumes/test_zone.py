"""VolumeZone: where the labels of volumes point."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.framework import SKIP, unresolvable
from stowplan.plugins.volumes.claims import BETA_CLASS
from stowplan.plugins.volumes.zone import BETA_REGION, BETA_ZONE, REGION, ZONE, VolumeZone, domains_of
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses
from tests.unit.plugins.volumes.world import a_claim, a_class, a_volume, judged, pre_filtered, world

NO_ZONE = "node(s) had no available volume zone"
POD = make_pod("p").pvc("c").build()


@pytest.mark.parametrize(
    ("volume_labels", "node_labels", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: " a __b"}, {ZONE: "a"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"rack": "1"}, True),
        ({ZONE: "a"}, {BETA_REGION: "r"}, False),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "a", ZONE: "b"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "b"}, False),
        ({BETA_REGION: "r"}, {REGION: "r"}, True),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
    ],
)
def test_a_node_must_be_in_a_zone_of_the_volume(
    volume_labels: dict[str, str], node_labels: dict[str, str], fits: bool
) -> None:
    cluster = world(
        a_claim("c", volume="v"), a_volume("v", labels=volume_labels), nodes={"n": node_labels, "blank": {}}
    )
    plugin = build_plugin(VolumeZone, cluster)
    assert judged(plugin, POD, cluster) == ({} if fits else {"n": (NO_ZONE,)})


def test_the_rejection_is_final() -> None:
    cluster = world(a_claim("c", volume="v"), a_volume("v", labels={ZONE: "a"}), nodes={"n": {ZONE: "b"}})
    assert statuses(build_plugin(VolumeZone, cluster), POD, cluster) == [unresolvable(NO_ZONE)]


def test_all_volumes_count() -> None:
    cluster = world(
        a_claim("c", volume="v"),
        a_claim("d", volume="w"),
        a_volume("v", labels={ZONE: "a__b"}),
        a_volume("w", labels={ZONE: "b"}),
        nodes={"na": {ZONE: "a"}, "nb": {ZONE: "b"}},
    )
    pod = make_pod("p").pvc("c", "d").build()
    assert judged(build_plugin(VolumeZone, cluster), pod, cluster) == {"na": (NO_ZONE,)}


@pytest.mark.parametrize("text", ["", "a__", "__a", "a__ __b"])
def test_a_label_with_an_empty_part_says_nothing(text: str) -> None:
    assert domains_of(a_volume("v", labels={ZONE: text})) == []


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([a_claim("c", storage_class=None)], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([a_claim("c", storage_class="x")], 'storageclass.storage.k8s.io "x" not found'),
        (
            [a_claim("c", storage_class="x"), a_class("x", mode=None)],
            'VolumeBindingMode not set for StorageClass "x"',
        ),
        ([a_claim("c", storage_class="x"), a_class("x", mode="Immediate")], "PersistentVolume had no name"),
        ([a_claim("c", volume="v")], 'persistentvolume "v" not found'),
    ],
)
def test_claims_that_lead_nowhere_are_told_before_any_node_is_looked_at(
    objects: list[Any], problem: str
) -> None:
    cluster = world(*objects, nodes={"n": {}})
    assert pre_filtered(build_plugin(VolumeZone, cluster), POD, cluster) == unresolvable(problem)


def test_a_claim_without_a_name_is_told() -> None:
    cluster = world(nodes={"n": {}})
    pod = make_pod("p").pvc("").build()
    status = pre_filtered(build_plugin(VolumeZone, cluster), pod, cluster)
    assert status == unresolvable("PersistentVolumeClaim had no name")


@pytest.mark.parametrize(
    ("pod", "objects"),
    [
        (make_pod("p").build(), []),
        (make_pod("p").volume("e", ephemeral={}).build(), []),
        (POD, [a_claim("c", volume="v"), a_volume("v")]),
        (POD, [a_claim("c", storage_class="wait"), a_class("wait")]),
        (POD, [a_claim("c", storage_class=None, annotations={BETA_CLASS: "wait"}), a_class("wait")]),
    ],
)
def test_pods_whose_volumes_point_nowhere_are_skipped(pod: Any, objects: list[Any]) -> None:
    cluster = world(*objects, nodes={"n": {ZONE: "a"}})
    assert pre_filtered(build_plugin(VolumeZone, cluster), pod, cluster) == SKIP
