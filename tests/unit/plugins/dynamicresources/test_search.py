from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.devices import AllocationResult
from stowplan.plugins.dynamicresources.requests import AllocationError, NodeAllocationError
from stowplan.plugins.dynamicresources.search import Search
from tests.unit.plugins.dynamicresources.world import (
    CLASS,
    DRIVER,
    Bench,
    allocation,
    device,
    every,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_slice,
    request,
)

A = f'device.attributes["{DRIVER}"]'


def bench(*devices: dict[str, Any], **slice_fields: Any) -> Bench:
    return Bench(make_slice("s", devices, **slice_fields))


def taken(bench: Bench, *names: str, **result: Any) -> None:
    claim = make_claim("other", allocation=allocation(*names, **result))
    bench.state.add(claim.status.allocation)


# ---------------------------------------------------------------- counts


def test_the_first_devices_are_taken_in_order() -> None:
    b = bench(device("a"), device("b"), device("c"))
    assert b.find(make_claim("c", request("r", 2), request("s"))) == [["r a", "r b", "s c"]]


def test_each_device_is_given_once() -> None:
    b = bench(device("a"), device("b"))
    assert b.find(make_claim("one"), make_claim("two")) == [["r a"], ["r b"]]
    assert b.find(make_claim("one"), make_claim("two"), make_claim("three")) is None


def test_devices_of_others_are_not_had() -> None:
    b = bench(device("a"), device("b"))
    taken(b, "a")
    assert b.find(make_claim()) == [["r b"]]


def test_an_earlier_choice_is_given_up_for_a_later_request() -> None:
    b = bench(device("any", {"good": False}), device("good", {"good": True}))
    only_good = request("s", 1, f"{A}.good")
    assert b.find(make_claim("c", request("r"), only_good)) == [["r any", "s good"]]
    assert b.find(make_claim("c", only_good, request("r"))) == [["s good", "r any"]]


def test_class_and_request_must_both_select() -> None:
    b = Bench(
        make_slice("s", [device("a", {"x": 1}), device("b", {"x": 2}), device("c", {"x": 3})]),
        classes=[make_class(CLASS, f"{A}.x > 1")],
    )
    assert b.find(make_claim("c", request("r", 1, f"{A}.x < 3"))) == [["r b"]]
    assert b.find(make_claim("c", request("r", 1, f"{A}.x < 2"))) is None


def test_more_than_a_claim_can_hold_is_an_error() -> None:
    b = bench(*(device(f"d{i}") for i in range(40)))
    with pytest.raises(AllocationError, match="number of requested devices 33 exceeds the claim limit of 32"):
        b.find(make_claim("c", request("r", 20), request("s", 13)))
    assert b.find(make_claim("c", request("r", 20), request("s", 12))) is not None


# ---------------------------------------------------------------- all devices


def test_all_means_every_selected_device() -> None:
    b = bench(device("a", {"x": 1}), device("b", {"x": 2}), device("c", {"x": 1}))
    assert b.find(make_claim("c", {"name": "r", "exactly": every(f"{A}.x == 1")})) == [["r a", "r c"]]


def test_all_fails_when_one_is_taken_or_none_is_there() -> None:
    b = bench(device("a"), device("b"))
    wish = make_claim("c", {"name": "r", "exactly": every()})
    taken(b, "b")
    assert b.find(wish) is None
    assert bench().find(wish) is None


def test_all_leaves_out_devices_that_are_too_small() -> None:
    small = device("small", capacity={"memory": {"value": "1Gi"}})
    large = device("large", capacity={"memory": {"value": "8Gi"}})
    asked = {"name": "r", "exactly": every(capacity={"requests": {"memory": "4Gi"}})}
    assert bench(small, large).find(make_claim("c", asked)) == [["r large"]]


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([make_slice("s", [device("a")], count=2)], "currently being updated"),
        ([make_slice("s", [device("a"), device("a")])], "currently invalid"),
    ],
)
def test_all_needs_sound_pools(slices: list[Any], problem: str) -> None:
    with pytest.raises(AllocationError, match=f"resource pool {DRIVER}/pool is {problem}"):
        Bench(*slices).find(make_claim("c", {"name": "r", "exactly": every()}))


def test_all_under_a_constraint_that_fails_is_an_error() -> None:
    b = bench(device("a", {"x": 1}), device("b", {"x": 2}))
    same = {"matchAttribute": f"{DRIVER}/x"}
    with pytest.raises(AllocationError, match="b because a claim constraint would not be satisfied"):
        b.find(make_claim("c", {"name": "r", "exactly": every()}, constraints=[same]))


# ---------------------------------------------------------------- alternatives


def test_the_first_alternative_that_can_be_had_is_taken() -> None:
    b = bench(device("small", {"big": False}), device("big", {"big": True}))
    wish = first_of("r", two_big=exactly(2, f"{A}.big"), one_big=exactly(1, f"{A}.big"), any=exactly(1))
    assert b.find(make_claim("c", wish)) == [["r/one_big big"]]
    taken(b, "big")
    assert b.find(make_claim("c", wish)) == [["r/any small"]]


def test_an_alternative_is_given_up_when_the_rest_cannot_be_had() -> None:
    b = bench(device("a", {"x": 1}), device("b", {"x": 2}))
    wish = first_of("r", both=exactly(2), one=exactly(1, f"{A}.x == 2"))
    assert b.find(make_claim("c", wish, request("s"))) == [["r/one b", "s a"]]


def test_an_alternative_that_is_too_large_for_the_claim_is_passed_over() -> None:
    b = bench(*(device(f"d{i}") for i in range(40)))
    wish = first_of("r", many=exactly(30), few=exactly(1))
    also = first_of("s", many=exactly(20), few=exactly(3))
    assert [len(found) for found in b.find(make_claim("c", wish, also)) or []] == [21]


# ---------------------------------------------------------------- constraints


def test_devices_must_match_in_an_attribute() -> None:
    b = bench(device("a", {"numa": 0}), device("b", {"numa": 1}), device("none"), device("c", {"numa": 1}))
    same = {"matchAttribute": f"{DRIVER}/numa"}
    assert b.find(make_claim("c", request("r", 2), constraints=[same])) == [["r b", "r c"]]


def test_values_of_different_types_do_not_match() -> None:
    b = bench(device("a", {"numa": 1}), device("b", {"numa": "1"}), device("c", {"numa": True}))
    same = {"matchAttribute": f"{DRIVER}/numa"}
    assert b.find(make_claim("c", request("r", 2), constraints=[same])) is None


def test_devices_must_differ_in_an_attribute() -> None:
    b = bench(device("a", {"rack": "x"}), device("b", {"rack": "x"}), device("c", {"rack": "y"}))
    different = {"distinctAttribute": f"{DRIVER}/rack"}
    claim = make_claim("c", request("r"), request("s"), constraints=[different])
    assert b.find(claim) == [["r a", "s c"]]


def test_a_constraint_may_be_for_some_requests_or_alternatives() -> None:
    b = bench(device("a", {"x": 1}), device("b", {"x": 2}), device("c", {"x": 1}))
    same = {"matchAttribute": f"{DRIVER}/x", "requests": ["r", "t/one"]}
    claim = make_claim("c", request("r"), request("s"), first_of("t", one=exactly(1)), constraints=[same])
    assert b.find(claim) == [["r a", "s b", "t/one c"]]


def test_an_empty_constraint_is_an_error() -> None:
    with pytest.raises(AllocationError, match="constraint #0: empty constraint"):
        bench(device("a")).find(make_claim("c", constraints=[{}]))


# ---------------------------------------------------------------- taints and admins


@pytest.mark.parametrize(
    ("effect", "toleration", "usable"),
    [
        ("NoSchedule", None, False),
        ("NoExecute", None, False),
        ("None", None, True),
        ("NoSchedule", {"operator": "Exists"}, True),
        ("NoSchedule", {"key": "t", "value": "v"}, True),
        ("NoSchedule", {"key": "t", "operator": "Equal", "value": "w"}, False),
        ("NoSchedule", {"key": "u", "operator": "Exists"}, False),
        ("NoSchedule", {"key": "t", "operator": "Exists", "effect": "NoExecute"}, False),
        ("NoSchedule", {"key": "t", "operator": "Unheard", "value": "v"}, False),
    ],
)
def test_taints_keep_away_who_does_not_tolerate_them(
    effect: str, toleration: dict[str, str] | None, usable: bool
) -> None:
    b = bench(device("a", taints=[{"key": "t", "value": "v", "effect": effect}]))
    asked = request("r", 1, tolerations=[toleration] if toleration else [])
    assert (b.find(make_claim("c", asked)) is not None) is usable


def test_administrators_see_devices_in_use_but_each_once_in_a_claim() -> None:
    b = bench(device("a"), device("b"))
    taken(b, "a", "b")
    watch = request("r", 2, adminAccess=True)
    assert b.find(make_claim("c", watch)) == [["r a", "r b"]]
    assert b.find(make_claim("c", watch, request("s", 1, adminAccess=True))) is None
    assert b.find(make_claim("c", watch), make_claim("d", watch)) is not None


# ---------------------------------------------------------------- counters


def partition(name: str, slots: int) -> dict[str, Any]:
    use = {"counterSet": "whole", "counters": {"slots": {"value": str(slots)}}}
    return device(name, consumesCounters=[use])


def partitions(*devices: dict[str, Any], slots: int = 4) -> Bench:
    whole = [{"name": "whole", "counters": {"slots": {"value": str(slots)}}}]
    return Bench(
        make_slice("counters", sharedCounters=whole, count=2), make_slice("devices", devices, count=2)
    )


def test_devices_share_the_counters_of_their_pool() -> None:
    b = partitions(partition("a", 3), partition("b", 2), partition("c", 1))
    assert b.find(make_claim("c", request("r", 2))) == [["r a", "r c"]]
    assert b.find(make_claim("c", request("r", 3))) is None


def test_allocated_devices_have_their_part_of_the_counters() -> None:
    b = partitions(partition("a", 3), partition("b", 2), partition("c", 1))
    taken(b, "a")
    assert b.find(make_claim()) == [["r c"]]
    taken(b, "c")
    assert b.find(make_claim()) is None


def test_counters_that_do_not_exist_make_a_pool_invalid() -> None:
    b = partitions(
        device("a", consumesCounters=[{"counterSet": "whole", "counters": {"other": {"value": "1"}}}])
    )
    with pytest.raises(NodeAllocationError, match="invalid resource pools were encountered"):
        b.find(make_claim())


# ---------------------------------------------------------------- shared devices


def shared(name: str = "a", memory: str = "8Gi", **policy: Any) -> dict[str, Any]:
    capacity = {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return device(name, allowMultipleAllocations=True, capacity={"memory": capacity})


def wanting(name: str, memory: str) -> Any:
    return make_claim(name, request("r", 1, capacity={"requests": {"memory": memory}}))


def test_a_shared_device_is_given_in_parts() -> None:
    b = bench(shared())
    assert b.find(wanting("one", "3Gi"), wanting("two", "5Gi")) == [["r a"], ["r a"]]
    assert b.find(wanting("one", "3Gi"), wanting("two", "6Gi")) is None
    (result,) = b.allocate(wanting("one", "3Gi"))
    assert b.find(wanting("two", "5Gi")) == [["r a"]]
    assert b.find(wanting("two", "6Gi")) is None
    b.state.remove(result)
    assert b.find(wanting("two", "6Gi")) == [["r a"]]


def test_unasked_a_shared_device_is_given_whole_or_by_its_default() -> None:
    assert bench(shared()).find(make_claim("one"), make_claim("two")) is None
    assert bench(shared(default="4Gi")).find(make_claim("one"), make_claim("two")) is not None


def test_shares_have_ids_that_differ_and_say_what_is_consumed() -> None:
    b = bench(shared(default="1Gi", validRange={"min": "1Gi", "step": "1Gi"}))
    results: list[AllocationResult] = b.allocate(wanting("one", "1500Mi"), wanting("two", "1Gi"))
    shares = [result.devices.results[0] for result in results]
    assert [share.consumed_capacity for share in shares] == [{"memory": "2Gi"}, {"memory": "1Gi"}]
    assert shares[0].share_id and shares[1].share_id and shares[0].share_id != shares[1].share_id


def test_a_share_of_nothing_still_takes_counters_only_once() -> None:
    use = [{"counterSet": "whole", "counters": {"slots": {"value": "3"}}}]
    b = partitions(device("a", allowMultipleAllocations=True, consumesCounters=use))
    assert b.find(make_claim("one"), make_claim("two")) == [["r a"], ["r a"]]
    b.allocate(make_claim("one"))
    assert b.find(make_claim("two")) is None


# ---------------------------------------------------------------- what is wrong with a claim


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (
            exactly(device_class="nope"),
            'could not retrieve device class nope: deviceclass.resource.k8s.io "nope"',
        ),
        (exactly(device_class=""), "missing device class name"),
        ({**exactly(), "allocationMode": "Some"}, "unsupported count mode Some"),
        ({**exactly(), "selectors": [{}]}, r"selector #0: CEL expression empty"),
        (
            exactly(1, f"{A}.nothing"),
            r"claim default/c: selector #0: CEL runtime error: no such key: nothing",
        ),
        (exactly(1, "1 +"), r"claim default/c: selector #0: CEL compile error"),
    ],
)
def test_a_broken_claim_is_an_error(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(AllocationError, match=problem):
        bench(device("a")).find(make_claim("c", {"name": "r", "exactly": asked}))


def test_a_broken_class_is_named() -> None:
    b = Bench(make_slice("s", [device("a")]), classes=[make_class(CLASS, "true", f"{A}.nothing")])
    with pytest.raises(AllocationError, match="class gpu: selector #1: CEL runtime error"):
        b.find(make_claim())


def test_a_search_can_be_stopped() -> None:
    b = bench(*(device(f"d{i}", {"x": i}) for i in range(12)))
    impossible = {"matchAttribute": f"{DRIVER}/x"}
    claim = make_claim("c", request("r", 2), constraints=[impossible])
    steps = 0

    def tick() -> None:
        nonlocal steps
        steps += 1
        if steps > 5:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        Search(b.plans(claim), b.sites.site(b.node), b.state, tick).run()
