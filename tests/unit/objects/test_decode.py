import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.objects import (
    KubeObject,
    Node,
    ObjectError,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    Service,
    decode_as,
    decode_list,
    decode_object,
    decode_pod,
    decode_yaml,
    intern_labels,
    kinds,
    known_kinds,
    register_kind,
)

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"app": "web"},
        "annotations": {"note": "x"},
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2024-05-01T10:00:00Z",
        "deletionTimestamp": "2024-05-01T10:00:30Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r1", "controller": True}
        ],
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "nodeName": "n1",
        "nodeSelector": {"disk": "ssd"},
        "priority": 10,
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 300}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "zone",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "namespaces": ["shop"],
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "containers": [
            {
                "name": "main",
                "image": "web:1",
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}],
                "resources": {"requests": {"cpu": "250m", "memory": 1024}},
            }
        ],
    },
    "status": {
        "phase": "Running",
        "startTime": "2024-05-01T10:00:01Z",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "250m"}}],
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4"}, "images": [{"names": ["web:1"], "sizeBytes": 5}]},
}


def changed(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a manifest with the value at a dotted path replaced."""
    copy: dict[str, Any] = json.loads(json.dumps(base))
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    holder: Any = copy
    for part in parents:
        holder = holder[part]
    holder[last] = value
    return copy


def both(manifest: dict[str, Any]) -> list[Any]:
    """A manifest as plain data and as JSON, which must read the same."""
    return [manifest, json.dumps(manifest).encode()]


@pytest.mark.parametrize("source", both(POD))
def test_pod_with_its_metadata_beside_its_other_fields(source: Any) -> None:
    pod = decode_object(source)
    assert isinstance(pod, Pod)
    assert (pod.name, pod.namespace, pod.key, pod.uid) == ("web-0", "shop", "shop/web-0", "u1")
    assert pod.labels is intern_labels({"app": "web"})
    assert pod.annotations == {"note": "x"}
    assert (pod.resource_version, pod.generation) == ("7", 3)
    assert (pod.created, pod.deleted) == (1714557600.0, 1714557630.0)
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="r1", controller=True)
    assert pod.owners == (owner,)
    assert pod.node_name == "n1"
    assert pod.spec.node_selector == {"disk": "ssd"}
    assert pod.spec.request == {"cpu": 250, "memory": 1024}
    assert pod.spec.host_ports == (("TCP", "10.0.0.1", 80),)
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.pod_anti_affinity is not None
    assert pod.spec.affinity.pod_anti_affinity.required[0].namespaces == ("shop",)
    assert pod.status.start_time == 1714557601.0


@pytest.mark.parametrize("source", [*both(NODE), json.dumps(NODE), bytearray(json.dumps(NODE).encode())])
def test_sources_of_every_type_read_the_same(source: Any) -> None:
    assert decode_object(source) == decode_as(Node, source)
    assert decode_as(Node, source).allocatable == {"cpu": 4000}


def test_pods_read_from_json_and_from_plain_data_share_their_shape() -> None:
    plain, text = (decode_pod(source) for source in both(POD))
    assert plain.spec is text.spec
    assert plain == text


@pytest.mark.parametrize(
    "path", ["metadata.labels", "spec.tolerations", "spec.affinity", "status", "spec.priority"]
)
def test_null_stands_for_absent(path: str) -> None:
    *parents, last = path.split(".")
    absent = json.loads(json.dumps(POD))
    holder = absent
    for part in parents:
        holder = holder[part]
    del holder[last]
    for source in both(changed(POD, path, None)):
        assert decode_pod(source) == decode_pod(absent)


NO_QUANTITY = "is not a quantity such as 250m, 1.5Gi or 2e3"
UNKNOWN = "is not a kind of object that is known here"


@pytest.mark.parametrize(
    ("base", "path", "value", "message"),
    [
        (
            POD,
            "spec.containers.0.resources.requests.cpu",
            "12x",
            f'Pod shop/web-0: spec.containers[0].resources.requests.cpu: "12x" {NO_QUANTITY}',
        ),
        (
            POD,
            "status.containerStatuses.0.allocatedResources.cpu",
            "",
            f'Pod shop/web-0: status.containerStatuses[0].allocatedResources.cpu: "" {NO_QUANTITY}',
        ),
        (
            POD,
            "spec.containers.0.ports.0.hostPort",
            "http",
            "Pod shop/web-0: spec.containers[0].ports[0].hostPort: expected int, got str",
        ),
        (POD, "spec.priority", 2**31, "Pod shop/web-0: spec.priority: expected int <= 2147483647"),
        (POD, "spec.tolerations", "all", "Pod shop/web-0: spec.tolerations: expected array, got str"),
        (
            POD,
            "metadata.creationTimestamp",
            "noon",
            "Pod shop/web-0: metadata.creationTimestamp: 'noon' is not a time such as 2024-05-01T10:00:00Z",
        ),
        (
            POD,
            "metadata.creationTimestamp",
            5,
            "Pod shop/web-0: metadata.creationTimestamp: expected a time, got int",
        ),
        (NODE, "status.allocatable.cpu", "lots", f'Node n1: status.allocatable.cpu: "lots" {NO_QUANTITY}'),
        (NODE, "metadata", "me", "Node without a name: metadata: expected object, got str"),
        (NODE, "kind", "Frob", f"Frob n1: kind: Frob of v1 {UNKNOWN}"),
        (NODE, "apiVersion", "example.com/v1", f"Node n1: kind: Node of example.com/v1 {UNKNOWN}"),
        (NODE, "kind", "", "Object n1: kind: is missing"),
        (NODE, "kind", 3, "Object n1: kind: expected str, got int"),
    ],
)
def test_mistakes_name_the_object_and_the_field(
    base: dict[str, Any], path: str, value: Any, message: str
) -> None:
    for source in both(changed(base, path, value)):
        with pytest.raises(ObjectError) as error:
            decode_object(source)
        assert str(error.value) == message


@pytest.mark.parametrize(
    "source", [b"", b"{", b"\xff", b"[]", b"7", "\ud800", b'{"kind": "Pod"', b"[" * 100_000]
)
def test_what_is_no_object_at_all_is_refused(source: bytes | str) -> None:
    for decode in (decode_object, decode_pod, decode_list):
        with pytest.raises(ObjectError):
            decode(source)


def test_a_namespace_means_nothing_in_a_kind_that_lives_in_none() -> None:
    """Kept, it would be in the object's key, and a claim would not find its volume by name."""
    for source in both(changed(NODE, "metadata.namespace", "shop")):
        node = decode_object(source)
        assert (node.namespace, node.key) == ("", "n1")


def test_list_of_one_kind_whose_items_do_not_say_their_kind() -> None:
    bare = {key: value for key, value in NODE.items() if key not in ("kind", "apiVersion")}
    bad = changed(bare, "status.allocatable.cpu", "lots")
    page = decode_list(
        json.dumps(
            {
                "kind": "NodeList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": "9", "continue": "next", "remainingItemCount": 4},
                "items": [bare, bad, changed(bare, "metadata.name", "n2")],
            }
        ).encode()
    )
    assert [item.name for item in page.items] == ["n1", "n2"]
    assert [str(error).split(":")[0] for error in page.errors] == ["Node n1"]
    assert (page.resource_version, page.continue_token, page.remaining) == ("9", "next", 4)


def test_list_without_items() -> None:
    assert decode_list(b'{"kind": "PodList", "apiVersion": "v1", "items": null}').items == ()
    with pytest.raises(ObjectError, match="FrobList: kind: FrobList of v1 is not a kind"):
        decode_list(b'{"kind": "FrobList", "apiVersion": "v1", "items": []}')
    with pytest.raises(ObjectError, match=r"^List: "):
        decode_list(b"nonsense")


def test_mixed_list() -> None:
    page = decode_list(json.dumps({"kind": "List", "apiVersion": "v1", "items": [POD, NODE, {"kind": "X"}]}))
    assert [type(item) for item in page.items] == [Pod, Node]
    assert len(page.errors) == 1


def test_yaml_documents_and_lists_are_unfolded() -> None:
    objects = decode_yaml(
        """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}}
---
# nothing here
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: ReplicaSet
  metadata: {name: web, creationTimestamp: 2024-05-01T10:00:00Z}
- apiVersion: v1
  kind: PersistentVolumeClaimList
  items:
  - metadata: {name: data}
    spec: {resources: {requests: {storage: 1.5Gi}}}
"""
    )
    assert [type(item) for item in objects] == [Service, ReplicaSet, PersistentVolumeClaim]
    assert objects[1].created == 1714557600.0
    with pytest.raises(ObjectError, match="items: an item is not an object"):
        decode_yaml("{kind: List, apiVersion: v1, items: [3]}")


def test_kinds_can_be_added_and_groups_keep_them_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))

    class Frob(KubeObject, frozen=True):
        size: int = 0

    register_kind(Frob, "frobs.example.com/v1", namespaced=True)
    frob = decode_object(
        {"apiVersion": "frobs.example.com/v1beta1", "kind": "Frob", "metadata": {"name": "f"}, "size": 3}
    )
    assert frob == Frob(name="f", size=3)
    with pytest.raises(ObjectError, match=r"Frob of other\.example\.com/v1 is not a kind"):
        decode_object({"apiVersion": "other.example.com/v1", "kind": "Frob", "metadata": {"name": "f"}})
    with pytest.raises(TypeError, match="not a kind of object that was registered"):
        decode_as(KubeObject, {})


@pytest.mark.parametrize("kind", list(known_kinds()), ids=lambda kind: kind.name)
def test_every_kind_reads_an_object_that_says_nothing(kind: Any) -> None:
    for source in both({"apiVersion": kind.api_version, "kind": kind.name}):
        assert decode_object(source) == kind.record()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("-1.5Gi"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def paths_in(value: Any, path: str = "") -> list[str]:
    """The dotted path of everything inside a manifest."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, item in inner:
        here = f"{path}.{key}".lstrip(".")
        found += [here, *paths_in(item, here)]
    return found


def read_or_refuse(source: Any) -> None:
    """Decode; anything but an object or an ObjectError is a bug, and escapes from here."""
    with suppress(ObjectError):
        assert isinstance(decode_object(source), KubeObject)


@settings(max_examples=500)
@given(base=st.sampled_from([POD, NODE]), data=st.data())
def test_whatever_stands_somewhere_is_accepted_or_refused(base: dict[str, Any], data: st.DataObject) -> None:
    damaged = changed(base, data.draw(st.sampled_from(paths_in(base))), data.draw(values))
    read_or_refuse(damaged)
    read_or_refuse(msgspec.json.encode(damaged))


@settings(max_examples=200)
@given(noise=st.binary(max_size=200), at=st.integers(0, 2000))
def test_damaged_bytes_are_refused(noise: bytes, at: int) -> None:
    whole = json.dumps(POD).encode()
    read_or_refuse(noise)
    read_or_refuse(whole[:at] + noise + whole[at:])


def test_yaml_that_contains_itself_is_refused() -> None:
    with pytest.raises(ObjectError, match="nested too deeply"):
        decode_yaml("&a {apiVersion: v1, kind: Pod, spec: {affinity: *a}, status: *a}")
