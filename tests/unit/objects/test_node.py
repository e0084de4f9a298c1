import pytest

from stowplan.testing.builders import make_node


def test_amounts_are_in_canonical_units_and_worked_out_once() -> None:
    node = make_node("n").capacity(cpu="4", memory="1Gi", pods=110).allocatable(cpu="3500m").build()
    assert node.capacity == {"cpu": 4000, "memory": 2**30, "pods": 110}
    assert node.allocatable == {"cpu": 3500, "memory": 2**30, "pods": 110}
    assert node.allocatable is node.allocatable


def test_amounts_are_shared_by_all_who_look_and_cannot_be_changed() -> None:
    node = make_node("n").capacity(cpu=4).build()
    for amounts in (node.capacity, node.allocatable):
        with pytest.raises(TypeError):
            amounts["cpu"] = 1  # type: ignore[index]


def test_node_that_offers_nothing() -> None:
    assert make_node("n").build().allocatable == {}
