"""Manifests as people write them: completed as an API server would, with mistakes told by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.cli.main import CommandError
from stowplan.cli.manifests import cluster_with, read_manifests
from stowplan.objects import KubeObject, Node, Pod
from stowplan.testing.builders import make_node, make_pod

HAND_WRITTEN = """
apiVersion: v1
kind: Node
metadata: {name: one}
status: {capacity: {cpu: 4}}
---
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  containers: [{name: main, resources: {requests: {memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: shop}
"""
CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: polite}
value: 7
preemptionPolicy: Never
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 3
globalDefault: true
"""


def read(folder: Path, *texts: str) -> dict[str, KubeObject]:
    files = [folder / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return {obj.key: obj for obj in read_manifests(map(str, files))}


def read_pod(folder: Path, metadata: str, spec: str) -> Pod:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {spec}\n"
    (pod,) = (obj for obj in read(folder, CLASSES, text).values() if isinstance(obj, Pod))
    return pod


def test_objects_get_the_default_namespace_and_a_uid(tmp_path: Path) -> None:
    objects = read(tmp_path, HAND_WRITTEN)
    assert {key: obj.uid for key, obj in objects.items()} == {
        "one": "one",
        "default/limited": "default/limited",
        "shop/other": "shop/other",
    }


def test_requests_follow_from_limits(tmp_path: Path) -> None:
    pod = read(tmp_path, HAND_WRITTEN)["default/limited"]
    assert isinstance(pod, Pod)
    assert pod.spec.request == {"cpu": 2000, "memory": 1 << 30}


def test_what_a_node_has_may_be_used(tmp_path: Path) -> None:
    node = read(tmp_path, HAND_WRITTEN)["one"]
    assert isinstance(node, Node)
    assert node.allocatable == {"cpu": 4000}


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        ("{priorityClassName: polite}", 7, "Never"),
        ("{priorityClassName: system-node-critical}", 2_000_001_000, ""),
        ("{priority: 5}", 5, ""),
        ("{}", 3, ""),
    ],
)
def test_priority_follows_from_the_class(tmp_path: Path, spec: str, priority: int, policy: str) -> None:
    pod = read_pod(tmp_path, "{name: p}", spec)
    assert (pod.spec.priority, pod.spec.preemption_policy) == (priority, policy)


def test_what_an_api_server_handed_out_stays_as_it_is(tmp_path: Path) -> None:
    pod = read_pod(
        tmp_path,
        "{name: p, namespace: shop, uid: '1'}",
        "{containers: [{name: main, resources: {limits: {cpu: 2}}}]}",
    )
    assert (pod.uid, pod.spec.priority, pod.spec.request) == ("1", 0, {})


def test_kinds_that_no_scheduler_reads_are_left_out_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}"
    assert len(read(tmp_path, f"{HAND_WRITTEN}---\n{deployment}\n---\n{deployment}")) == 3
    assert capsys.readouterr().err == (
        "stowplan: left out, because they do not matter for scheduling: 2 Deployment (apps/v1)\n"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "YAML: line 2: "),
        ("hello", "YAML: a document is str, not an object"),
        ("metadata: {name: web}", "Object web: kind: is missing"),
        ("{apiVersion: v1, kind: Node, metadata: {name: one}, spec: 3}", "Node one: spec: "),
    ],
)
def test_a_mistake_is_told_with_its_file(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(CommandError) as complaint:
        read(tmp_path, HAND_WRITTEN, text)
    assert str(complaint.value).startswith(f"{tmp_path}/1.yaml: {problem}")
    assert "\n" not in str(complaint.value)


def test_what_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "noise"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError) as complaint:
        read_manifests([str(file)])
    assert "\n" not in str(complaint.value)


def test_pods_that_are_done_take_no_room() -> None:
    done = make_pod("done").on_node("one").status(phase="Succeeded").build()
    running = make_pod("running").on_node("one").status(phase="Running").build()
    cluster = cluster_with([done, make_node("one").build(), running])
    assert list(cluster.pods) == [running.uid]


def test_promised_room_is_counted() -> None:
    promised = make_pod("promised").status(nominatedNodeName="one").build()
    placed = make_pod("placed").on_node("one").status(nominatedNodeName="one").build()
    cluster = cluster_with([promised, placed, make_pod("waiting").build()])
    assert cluster.nominations.node_of(promised.uid) == "one"
    assert cluster.nominations.node_of(placed.uid) is None


def test_of_objects_of_one_name_the_last_counts_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = "{apiVersion: v1, kind: Node, metadata: {name: one}, status: {capacity: {cpu: %d}}}"
    service = "{apiVersion: v1, kind: Service, metadata: {name: one}}"
    pods = (
        "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: a}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, uid: b}}"
    )
    objects = read(tmp_path, node % 1, node % 2, service, pods)
    assert (objects["default/p"].uid, objects["one"]) == ("b", read(tmp_path, node % 2)["one"])
    (told,) = capsys.readouterr().err.splitlines()
    assert told == "stowplan: given more than once, the last one counts: Node one, Pod default/p"
