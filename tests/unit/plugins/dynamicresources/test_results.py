from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.objects import intern_labels
from stowplan.objects.devices import AllocationResult
from stowplan.plugins.dynamicresources.requests import AllocationError
from tests.unit.plugins.dynamicresources.world import (
    CLASS,
    Bench,
    device,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_slice,
    request,
)


def opaque(value: str) -> dict[str, Any]:
    return {"opaque": {"driver": "d", "parameters": {"value": value}}}


def plain(result: AllocationResult) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
    return made


def selector(key: str, *values: str) -> dict[str, Any]:
    return {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    }


def test_a_result_carries_what_the_driver_and_others_need() -> None:
    slow = device("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    tolerated = [{"key": "t", "operator": "Exists"}]
    (result,) = Bench(make_slice("s", [slow])).allocate(
        make_claim("c", request("r", 1, tolerations=tolerated, adminAccess=True))
    )
    assert plain(result)["devices"]["results"] == [
        {
            "request": "r",
            "driver": "gpu.example.com",
            "pool": "pool",
            "device": "a",
            "adminAccess": True,
            "tolerations": tolerated,
            "bindingConditions": ["ready"],
            "bindingFailureConditions": ["failed"],
        }
    ]


def test_parameters_come_from_classes_once_and_then_from_the_claim() -> None:
    classes = [make_class(CLASS, config=[opaque("class")]), make_class("other", config=[opaque("other")])]
    bench = Bench(make_slice("s", [device(name) for name in "abcd"]), classes=classes)
    claim = make_claim(
        "c",
        request("r"),
        request("s", 1, device_class="other"),
        first_of("t", one=exactly(9), two=exactly(1)),
        config=[
            opaque("all"),
            {"requests": ["t"], **opaque("request")},
            {"requests": ["t/two"], **opaque("alternative")},
            {"requests": ["t/one"], **opaque("not chosen")},
            {"requests": ["r", "s"], **opaque("two")},
        ],
    )
    (result,) = bench.allocate(claim)
    found = [
        (one["source"], one.get("requests", []), one["opaque"]["parameters"]["value"])
        for one in plain(result)["devices"]["config"]
    ]
    assert found == [
        ("FromClass", ["r", "t/two"], "class"),
        ("FromClass", ["s"], "other"),
        ("FromClaim", [], "all"),
        ("FromClaim", ["t"], "request"),
        ("FromClaim", ["t/two"], "alternative"),
        ("FromClaim", ["r", "s"], "two"),
        ("FromClaim", ["r", "s"], "two"),
    ]


def test_devices_of_a_node_bind_the_claim_to_it() -> None:
    for made in (
        make_slice("s", [device("a")], nodeName="n1"),
        make_slice("s", [device("a", bindsToNode=True)]),
        make_slice("s", [device("a", nodeName="n1")], perDeviceNodeSelection=True),
    ):
        (result,) = Bench(made).allocate(make_claim())
        assert plain(result)["nodeSelector"] == {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ]
        }


def test_devices_for_all_nodes_leave_the_claim_free() -> None:
    (result,) = Bench(make_slice("s", [device("a")])).allocate(make_claim())
    assert result.node_selector is None


def test_conditions_of_several_devices_are_joined_without_repeats() -> None:
    bench = Bench(
        make_slice("s1", [device("a")], pool="1", nodeSelector=selector("zone", "x", "y")),
        make_slice("s2", [device("b")], pool="2", nodeSelector=selector("zone", "y", "x")),
        make_slice("s3", [device("c")], pool="3", nodeSelector=selector("rack", "1")),
    )
    bench.node = msgspec.structs.replace(bench.node, labels=_labels(zone="x", rack="1"))
    (result,) = bench.allocate(make_claim("c", request("r", 3)))
    (term,) = plain(result)["nodeSelector"]["nodeSelectorTerms"]
    assert [one["key"] for one in term["matchExpressions"]] == ["zone", "rack"]


def test_a_slice_with_two_terms_is_refused() -> None:
    terms = selector("zone", "x")["nodeSelectorTerms"] * 2
    bench = Bench(make_slice("s", [device("a")], nodeSelector={"nodeSelectorTerms": terms}))
    bench.node = msgspec.structs.replace(bench.node, labels=_labels(zone="x"))
    with pytest.raises(AllocationError, match="create NodeSelector for claim claim: unsupported"):
        bench.allocate(make_claim())


def _labels(**labels: str) -> Any:
    return intern_labels(labels)
