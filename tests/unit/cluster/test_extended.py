from __future__ import annotations

from itertools import permutations

import pytest

from stowplan.cluster import Cluster
from stowplan.cluster.extended import extended_resources, may_be_device
from stowplan.objects import DeviceClass
from stowplan.testing.builders import make_object

GPU = "example.com/gpu"


def make_class(name: str, resource: str | None = GPU, day: int = 1) -> DeviceClass:
    spec = {} if resource is None else {"extendedResourceName": resource}
    return make_object(
        DeviceClass, name, spec=spec, metadata={"creationTimestamp": f"2024-01-0{day}T00:00:00Z"}
    )


def backing(resource: str, *classes: DeviceClass) -> str | None:
    cluster = Cluster()
    for one in classes:
        cluster.add(one)
    found = extended_resources(cluster).class_of(resource)
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("example.com/gpu", True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/thing", False),
        ("requests.example.com/gpu", False),
        ("example.com/not a name", False),
    ],
)
def test_which_resources_devices_may_back(name: str, may: bool) -> None:
    assert may_be_device(name) is may


def test_of_several_classes_the_newest_backs_a_resource() -> None:
    assert backing(GPU, make_class("a", day=1), make_class("b", day=2)) == "b"
    assert backing(GPU, make_class("a", day=2), make_class("b", day=1)) == "a"
    assert backing(GPU, make_class("b"), make_class("a")) == "a"


def test_a_class_can_be_asked_for_by_its_name() -> None:
    own = "deviceclass.resource.kubernetes.io/a"
    assert backing(own, make_class("a", None)) == "a"
    assert backing(own, make_class("b")) is None


def test_a_class_that_comes_too_late_is_passed_over_with_its_own_name() -> None:
    late = "deviceclass.resource.kubernetes.io/b"
    assert backing(late, make_class("a", day=2), make_class("b", day=1)) is None
    early = "deviceclass.resource.kubernetes.io/a"
    assert backing(early, make_class("a", day=1), make_class("b", day=2)) == "a"


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_which_class_it_is_does_not_depend_on_what_came_first(order: tuple[str, ...]) -> None:
    days = {"a": 1, "b": 3, "c": 2}
    cluster = Cluster()
    known = extended_resources(cluster)
    for name in order:
        cluster.add(make_class(name, "example.com/other", day=days[name]))
    for name in reversed(order):
        cluster.add(make_class(name, day=days[name]))
    found = known.class_of(GPU)
    assert found is not None and found.name == "b"


def test_classes_come_and_go() -> None:
    cluster = Cluster()
    known = extended_resources(cluster)
    assert known is extended_resources(cluster)
    assert known.class_of(GPU) is None
    cluster.add(make_class("a"))
    assert known.class_of(GPU) is not None
    cluster.add(make_class("a", "example.com/other"))
    assert known.class_of(GPU) is None
    cluster.remove(make_class("a"))
    assert known.class_of("example.com/other") is None
