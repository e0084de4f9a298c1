"""How large an image is, when nodes do not agree or change their minds."""

from __future__ import annotations

from stowplan.cluster import Cluster
from stowplan.objects import Node
from stowplan.testing.builders import make_node


def node(name: str, *sizes: int) -> Node:
    builder = make_node(name)
    for size in sizes:
        builder.image("app:1", size=size)
    return builder.build()


def size_in(cluster: Cluster) -> int | None:
    image = cluster.table.images.get("app:1")
    return None if image is None else image.size


def test_the_first_node_that_reports_an_image_says_how_large_it_is() -> None:
    cluster = Cluster()
    cluster.add(node("a", 10))
    cluster.add(node("b", 20))
    assert size_in(cluster) == 10
    cluster.add(node("a", 30))
    assert size_in(cluster) == 10, "b still holds it"
    cluster.remove(node("b"))
    cluster.add(node("a", 40))
    assert size_in(cluster) == 40, "nobody else holds it"
    cluster.add(node("a"))
    assert size_in(cluster) is None


def test_of_two_entries_with_one_name_the_first_counts() -> None:
    cluster = Cluster()
    cluster.add(node("a", 10, 20))
    assert size_in(cluster) == 10
