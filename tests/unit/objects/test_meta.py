import copy
import gc
import pickle

import pytest

from stowplan.objects.meta import KubeObject, OwnerReference, intern_labels, parse_time


def test_equal_labels_are_one_object_and_key_a_cache() -> None:
    first = intern_labels({"app": "web", "tier": "a"})
    second = intern_labels({"tier": "a", "app": "web"})
    assert first is second
    assert first == {"app": "web", "tier": "a"}
    assert {first: "remembered"}[second] == "remembered"
    assert intern_labels(first) is first


def test_different_labels_are_different_objects() -> None:
    assert intern_labels({"app": "web"}) is not intern_labels({"app": "db"})
    assert intern_labels({}) is intern_labels({})


def test_labels_nobody_uses_are_forgotten() -> None:
    from stowplan.objects import meta

    labels = intern_labels({"only": "here"})
    before = len(meta._interned)
    del labels
    gc.collect()
    assert len(meta._interned) < before


def test_shared_labels_cannot_be_changed() -> None:
    labels = intern_labels({"app": "web"})
    with pytest.raises(TypeError, match="cannot be changed"):
        labels["app"] = "db"
    with pytest.raises(TypeError, match="cannot be changed"):
        labels.update(app="db")
    with pytest.raises(TypeError, match="cannot be changed"):
        labels.pop("app")
    assert labels == {"app": "web"}


def test_labels_stay_shared_when_copied_or_pickled() -> None:
    labels = intern_labels({"app": "web"})
    assert copy.deepcopy(labels) is labels
    assert pickle.loads(pickle.dumps(labels)) is labels


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2024-05-01T10:00:00Z", 1714557600),
        ("2024-05-01T12:00:00+02:00", 1714557600),
        ("2024-05-01T10:00:00.250000Z", 1714557600.25),
    ],
)
def test_times_are_seconds_since_the_epoch(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2024-05-01", "2024-05-01T10:00:00", "2024-13-01T10:00:00Z"]
)
def test_text_that_is_no_point_in_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text)


def test_object_knows_its_key_controller_and_end() -> None:
    owners = (OwnerReference(name="other"), OwnerReference(name="boss", controller=True))
    pod = KubeObject(name="web-0", namespace="shop", owners=owners, deleted=5.0)
    assert pod.key == "shop/web-0"
    assert pod.controller is owners[1]
    assert pod.terminating
    node = KubeObject(name="n1")
    assert (node.key, node.controller, node.terminating) == ("n1", None, False)
