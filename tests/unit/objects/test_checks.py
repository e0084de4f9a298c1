import msgspec
import pytest

from stowplan.objects import Node, Pod, StorageClass
from stowplan.objects.base import Quantity, Record, ResourceList
from stowplan.objects.checks import FieldError, quantity_check


class Part(Record, frozen=True):
    amounts: ResourceList = msgspec.field(default_factory=dict)
    limit: Quantity | None = None


class Whole(Record, frozen=True):
    many: tuple[Part, ...] = ()
    named: dict[str, Part] = msgspec.field(default_factory=dict)
    one: Part | None = None


@pytest.mark.parametrize(
    ("whole", "path"),
    [
        (Whole(many=(Part(), Part(amounts={"cpu": "1", "memory": "x"}))), "many[1].amounts.memory"),
        (Whole(named={"a": Part(limit="x")}), "named.a.limit"),
        (Whole(one=Part(limit="")), "one.limit"),
    ],
)
def test_wrong_quantity_is_found_wherever_it_is(whole: Whole, path: str) -> None:
    check = quantity_check(Whole)
    assert check is not None
    with pytest.raises(FieldError) as error:
        check(whole)
    assert error.value.path == path


def test_right_quantities_pass() -> None:
    check = quantity_check(Whole)
    assert check is not None
    check(Whole(many=(Part(amounts={"cpu": 0.5}),), one=Part(limit=0)))


def test_records_without_quantities_need_no_check() -> None:
    assert quantity_check(StorageClass) is None
    assert quantity_check(Node) is not None
    assert quantity_check(Pod) is not None
