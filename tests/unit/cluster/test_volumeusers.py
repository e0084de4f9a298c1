"""Who uses which claim or disk, whatever becomes of pods and nodes."""

from __future__ import annotations

from typing import Any

from stowplan.cluster import Cluster
from stowplan.cluster.volumeusers import claim_key
from stowplan.testing.builders import make_node, make_pod


def cluster_of(*names: str) -> Cluster:
    cluster = Cluster()
    for name in names:
        cluster.add(make_node(name).build())
    return cluster


def test_rows_are_counted_until_the_last_user_is_gone() -> None:
    cluster = cluster_of("n0", "n1")
    users, key = cluster.volume_users, claim_key("default", "c")
    first, second = (make_pod(name).pvc("c").on_node("n1").build() for name in ("p", "q"))
    assert not users.rows(key)
    cluster.add(first)
    cluster.add(second)
    assert set(users.rows(key)) == {1}
    cluster.remove(first)
    assert set(users.rows(key)) == {1}
    cluster.remove(second)
    assert not users.rows(key)


def test_namespaces_are_kept_apart_and_ephemeral_volumes_left_out() -> None:
    cluster = cluster_of("n0")
    cluster.add(make_pod("p", "other").pvc("c").volume("e", ephemeral={}).on_node("n0").build())
    assert not cluster.volume_users.rows(claim_key("default", "c"))
    assert not cluster.volume_users.rows(claim_key("other", "p-e"))


def test_users_move_with_the_row_of_their_node() -> None:
    cluster = cluster_of("n0", "n1")
    cluster.add(make_pod("p").pvc("c").on_node("n1").build())
    key = claim_key("default", "c")
    with cluster.trial():
        cluster.remove_node("n0")
        assert set(cluster.volume_users.rows(key)) == {0}
    assert set(cluster.volume_users.rows(key)) == {1}
    cluster.remove_node("n1")
    assert not cluster.volume_users.rows(key)


def test_disks_are_known_by_what_makes_two_of_them_one() -> None:
    cluster = cluster_of("n0")
    disks: dict[str, dict[str, Any]] = {
        "gce": {"gcePersistentDisk": {"pdName": "d"}},
        "ebs": {"awsElasticBlockStore": {"volumeID": "v"}},
        "iscsi": {"iscsi": {"iqn": "q", "targetPortal": "x", "lun": 0}},
        "rbd": {"rbd": {"monitors": ["m"], "pool": "rbd", "image": "i"}},
    }
    pod = make_pod("p").on_node("n0")
    for name, source in disks.items():
        pod.volume(name, **source)
    cluster.add(pod.build())
    for key in (("gce", "d"), ("ebs", "v"), ("iscsi", "q"), ("rbd", "rbd", "i")):
        assert set(cluster.volume_users.rows(key)) == {0}
