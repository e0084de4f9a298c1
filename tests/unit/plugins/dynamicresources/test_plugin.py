from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from stowplan.cluster import Cluster
from stowplan.framework.contract import SKIP, CycleState
from stowplan.framework.failure import PluginError
from stowplan.framework.status import Code
from stowplan.objects import Pod
from stowplan.objects.devices import AllocatedDeviceStatus
from stowplan.objects.duration import Duration
from stowplan.plugins.dynamicresources.filtering import FilterTimeoutError
from stowplan.plugins.dynamicresources.ledger import ledger_of
from stowplan.plugins.dynamicresources.plugin import DynamicResources, DynamicResourcesArgs
from stowplan.plugins.dynamicresources.requests import AllocationError
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.dynamicresources.server import Server
from tests.unit.plugins.dynamicresources.world import (
    CLASS,
    DRIVER,
    allocation,
    claiming_pod,
    device,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_cluster,
    make_slice,
    reasons,
    request,
)

GPU = "example.com/gpu"
NO_DEVICES = "cannot allocate all claims"
AWAY = "resourceclaim not available on the node"


def build(cluster: Cluster) -> DynamicResources:
    return build_plugin(DynamicResources, cluster)


def two_nodes(*objects: Any) -> Cluster:
    """n1 has two devices, n2 has none."""
    return make_cluster(
        make_slice("s", [device("a"), device("b")], nodeName="n1"), make_class(), *objects, nodes=["n1", "n2"]
    )


def templated_pod(made: str | None = None, *, known: bool = True) -> Pod:
    """A pod with a claim from a template, and what its status says was made."""
    builder = make_pod("p").uid("uid-p")
    builder.spec(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "template"}])
    if known:
        builder.status(resourceClaimStatuses=[{"name": "c", **({"resourceClaimName": made} if made else {})}])
    return builder.build()


# ---------------------------------------------------------------- PreEnqueue and PreFilter


def test_a_pod_without_claims_is_none_of_its_business() -> None:
    plugin = build(two_nodes())
    pod = make_pod("p").requests(cpu="1").build()
    assert not plugin.concerns(pod)
    assert plugin.pre_enqueue(pod) is None
    assert plugin.pre_filter(CycleState(), pod, plugin.handle.cluster.nodes) == SKIP
    assert plugin.concerns(claiming_pod("p", "claim"))


OWNED: dict[str, Any] = {
    "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]
}


@pytest.mark.parametrize(
    ("pod", "claim", "message"),
    [
        (claiming_pod("p", "nope"), {}, 'could not find ResourceClaim "default/nope"'),
        (
            claiming_pod("p", "claim"),
            {"deletionTimestamp": "2024-01-01T00:00:00Z"},
            'resourceclaim "claim" is being deleted',
        ),
        (templated_pod(known=False), {}, 'pod "default/p": ResourceClaim not created yet'),
        (
            templated_pod("claim"),
            {},
            "ResourceClaim default/claim was not created for Pod default/p (Pod is not owner)",
        ),
        (
            make_pod("p").spec(resourceClaims=[{"name": "c"}]).build(),
            {},
            'pod "default/p", spec.resourceClaim "c": none of the supported fields are set',
        ),
    ],
)
def test_a_pod_waits_for_usable_claims(pod: Pod, claim: dict[str, Any], message: str) -> None:
    cluster = two_nodes(make_claim("claim", **claim))
    plugin = build(cluster)
    waiting = plugin.pre_enqueue(pod)
    assert waiting is not None
    assert (waiting.code, waiting.message) == (Code.UNRESOLVABLE, message)
    assert reasons(plugin, cluster, pod) == {"": message}


def test_claims_from_templates_are_found_in_the_status() -> None:
    cluster = two_nodes(make_claim("claim", **OWNED))
    plugin = build(cluster)
    assert plugin.pre_enqueue(templated_pod("claim")) is None
    assert reasons(plugin, cluster, templated_pod("claim")) == {"n2": NO_DEVICES}


def test_a_template_may_yield_no_claim() -> None:
    plugin = build(two_nodes())
    assert plugin.pre_filter(CycleState(), templated_pod(), plugin.handle.cluster.nodes) == SKIP


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (request("r", 1, device_class="nope"), "request r: device class nope does not exist"),
        (
            first_of("r", a=exactly(), b=exactly(device_class="nope")),
            "request r/b: device class nope does not exist",
        ),
        ({"name": "r"}, "resource claim default/claim, request r: unknown request type"),
    ],
)
def test_requests_must_be_understood(asked: dict[str, Any], message: str) -> None:
    cluster = two_nodes(make_claim("claim", asked))
    assert reasons(build(cluster), cluster, claiming_pod("p", "claim")) == {"": message}


def test_a_request_without_a_class_is_an_error() -> None:
    cluster = two_nodes(make_claim("claim", request("r", 1, device_class="")))
    with pytest.raises(ValueError, match="request r: unsupported request type"):
        reasons(build(cluster), cluster, claiming_pod("p", "claim"))


def test_a_claim_that_is_being_allocated_is_waited_for() -> None:
    cluster = two_nodes(make_claim("claim"))
    plugin = build(cluster)
    state = CycleState()
    assert plugin.pre_filter(state, claiming_pod("p", "claim"), cluster.nodes) is None
    assert plugin.reserve(state, claiming_pod("p", "claim"), "n1") is None
    message = "resource claim default/claim is in the process of being allocated"
    assert reasons(plugin, cluster, claiming_pod("q", "claim")) == {"": message}
    plugin.unreserve(state, claiming_pod("p", "claim"), "n1")
    assert reasons(plugin, cluster, claiming_pod("q", "claim")) == {"n2": NO_DEVICES}


# ---------------------------------------------------------------- Filter


def test_nodes_without_devices_are_rejected_for_good() -> None:
    cluster = two_nodes(make_claim("claim"))
    plugin = build(cluster)
    state, pod = CycleState(), claiming_pod("p", "claim")
    plugin.pre_filter(state, pod, cluster.nodes)
    verdict = plugin.filter(state, pod, cluster.nodes)
    assert verdict.passed.tolist() == [True, False]
    assert verdict.status_of(verdict.codes.item(1)).code is Code.UNRESOLVABLE
    assert [plugin.filter_node(state, pod, node) for node in cluster.nodes] == [
        None,
        verdict.status_of(verdict.codes.item(1)),
    ]


def test_allocated_claims_say_where_they_can_be_used() -> None:
    claim = make_claim("claim", allocation=allocation("a", node="n2"))
    cluster = two_nodes(claim)
    assert reasons(build(cluster), cluster, claiming_pod("p", "claim")) == {"n1": AWAY}
    free = make_claim("free", allocation=allocation("b"))
    cluster.add(free)
    assert reasons(build(cluster), cluster, claiming_pod("p", "free")) == {}


def test_missing_devices_are_named_before_unavailable_claims() -> None:
    cluster = two_nodes(make_claim("there", allocation=allocation("a", node="n1")), make_claim("new"))
    assert reasons(build(cluster), cluster, claiming_pod("p", "there", "new")) == {"n2": NO_DEVICES}
    cluster.add(make_claim("there", allocation=allocation("a", node="n2")))
    assert reasons(build(cluster), cluster, claiming_pod("p", "there", "new")) == {
        "n1": AWAY,
        "n2": NO_DEVICES,
    }


def test_invalid_pools_are_named_where_nothing_else_helps() -> None:
    cluster = two_nodes(make_claim("claim"), make_slice("bad", [device("x"), device("x")], pool="bad"))
    assert reasons(build(cluster), cluster, claiming_pod("p", "claim")) == {
        "n2": "invalid resource pools were encountered"
    }


def test_a_broken_selector_is_an_error_that_names_the_claim() -> None:
    cluster = two_nodes(make_claim("claim", request("r", 1, f'device.attributes["{DRIVER}"].nope')))
    with pytest.raises(AllocationError) as raised:
        reasons(build(cluster), cluster, claiming_pod("p", "claim"))
    assert str(PluginError("DynamicResources", "filter", raised.value)) == (
        'running "DynamicResources" filter plugin: claim default/claim: selector #0: '
        "CEL runtime error: no such key: nope"
    )


def test_a_search_that_takes_too_long_is_an_error_that_names_the_node() -> None:
    devices = [device(f"d{i}") for i in range(16)]
    claim = make_claim("claim", request("r", 4), request("s", 1, "false"))
    cluster = make_cluster(make_slice("s", devices), make_class(), claim)
    server = Server(cluster)
    plugin = server.plugin(filter_timeout=Duration.of_seconds(1))

    def clock() -> float:
        server.now += 1
        return server.now

    plugin.handle.host.now = clock  # type: ignore[attr-defined]
    with pytest.raises(FilterTimeoutError, match="node n1: timed out trying to allocate devices"):
        reasons(plugin, cluster, claiming_pod("p", "claim"))


@pytest.mark.parametrize(
    ("conditions", "waited", "rejected"),
    [
        ([], 0.0, False),
        ([], 601.0, True),
        ([{"type": "ready", "status": "True"}], 601.0, False),
        ([{"type": "ready", "status": "False"}], 601.0, True),
        ([{"type": "failed", "status": "True", "reason": "Broken", "message": "m"}], 0.0, True),
    ],
)
def test_devices_that_do_not_become_ready_make_a_claim_unavailable(
    conditions: list[dict[str, str]], waited: float, rejected: bool
) -> None:
    made = allocation("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    made["allocationTimestamp"] = "2023-11-14T22:13:20Z"
    claim = make_claim("claim", allocation=made)
    reported = {"driver": DRIVER, "pool": "pool", "device": "a", "conditions": conditions}
    devices = (msgspec.convert(reported, AllocatedDeviceStatus),)
    status = msgspec.structs.replace(claim.status, devices=devices)
    cluster = make_cluster(msgspec.structs.replace(claim, status=status))
    server = Server(cluster)
    plugin = server.plugin()
    server.now = 1_700_000_000.0 + waited
    assert reasons(plugin, cluster, claiming_pod("p", "claim")) == ({"n1": AWAY} if rejected else {})


# ---------------------------------------------------------------- Score


def scores(cluster: Cluster, pod: Pod) -> list[int]:
    plugin = build(cluster)
    state = CycleState()
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    plugin.filter(state, pod, cluster.nodes)
    raw = plugin.score(state, pod, cluster.nodes)
    column = np.full(len(cluster.nodes), raw) if isinstance(raw, int) else raw
    found: list[int] = plugin.normalize(state, pod, column, cluster.nodes).tolist()
    return found


def test_earlier_alternatives_score_higher() -> None:
    wish = first_of("r", two=exactly(2), one=exactly(1))
    cluster = make_cluster(
        make_slice("s1", [device("a")], pool="p1", nodeName="n1"),
        make_slice("s2", [device("a"), device("b")], pool="p2", nodeName="n2"),
        make_class(),
        make_claim("claim", wish),
        nodes=["n1", "n2"],
    )
    assert scores(cluster, claiming_pod("p", "claim")) == [87, 100]


def test_without_alternatives_all_nodes_score_nothing() -> None:
    cluster = make_cluster(
        make_slice("s", [device("a")]), make_class(), make_claim("claim"), nodes=["n1", "n2"]
    )
    assert scores(cluster, claiming_pod("p", "claim")) == [0, 0]


def test_alternatives_of_allocated_claims_count_on_every_node() -> None:
    wish = first_of("r", two=exactly(2), one=exactly(1))
    made = allocation("a")
    made["devices"]["results"][0]["request"] = "r/one"
    done = make_claim("done", wish, allocation=made)
    cluster = make_cluster(
        make_slice("s1", [device("a"), device("b"), device("c")], pool="p1"),
        make_class(),
        done,
        make_claim("new", wish),
    )
    plugin = build(cluster)
    state, pod = CycleState(), claiming_pod("p", "done", "new")
    plugin.pre_filter(state, pod, cluster.nodes)
    assert np.asarray(plugin.score(state, pod, cluster.nodes)).tolist() == [15]


# ---------------------------------------------------------------- extended resources


def test_extended_resources_come_from_devices_where_the_node_has_none() -> None:
    pod = make_pod("p").requests({GPU: "1"}).build()
    cluster = make_cluster(
        make_slice("s", [device("a")], nodeName="n1"), make_class(CLASS, extendedResourceName=GPU)
    )
    for name in ("n2", "n3"):
        cluster.add(make_node(name).allocatable({GPU: "1"} if name == "n3" else {}).build())
    plugin = build(cluster)
    assert plugin.concerns(pod)
    assert reasons(plugin, cluster, pod) == {"n2": NO_DEVICES}


def test_alternatives_of_allocated_claims_count_also_where_the_node_has_the_extended_resource() -> None:
    made = allocation("b")
    made["devices"]["results"][0]["request"] = "r/one"
    claims = [{"name": "c", "resourceClaimName": "done"}]
    pod = make_pod("p").spec(resourceClaims=claims).requests({GPU: "1"}).build()
    cluster = make_cluster(
        make_slice("s", [device("a"), device("b")]),
        make_class(CLASS, extendedResourceName=GPU),
        make_claim("done", first_of("r", two=exactly(2), one=exactly(1)), allocation=made),
    )
    cluster.add(make_node("n2").allocatable({GPU: "1"}).build())
    plugin = build(cluster)
    state = CycleState()
    plugin.pre_filter(state, pod, cluster.nodes)
    assert np.asarray(plugin.score(state, pod, cluster.nodes)).tolist() == [7, 7]


def test_extended_resources_that_no_class_backs_are_left_to_others() -> None:
    pod = make_pod("p").requests({GPU: "1"}).build()
    plugin = build(two_nodes())
    assert plugin.pre_filter(CycleState(), pod, plugin.handle.cluster.nodes) == SKIP


def test_a_resource_that_neither_node_nor_class_has_rejects() -> None:
    pod = make_pod("p").requests({GPU: "1", "example.com/other": "1"}).build()
    cluster = two_nodes(make_class("x", extendedResourceName=GPU))
    assert reasons(build(cluster), cluster, pod) == {"n1": "cannot fit resource", "n2": "cannot fit resource"}


# ---------------------------------------------------------------- args


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({}, []),
        ({"filter_timeout": Duration(0)}, []),
        ({"filter_timeout": Duration(-1)}, ["filterTimeout"]),
        ({"binding_timeout": Duration.of_seconds(0.5)}, ["bindingTimeout"]),
    ],
)
def test_args_are_checked(args: dict[str, Any], paths: list[str]) -> None:
    assert [path for path, _ in DynamicResourcesArgs(**args).problems()] == paths


def test_a_trace_shows_the_devices_of_each_claim() -> None:
    cluster = two_nodes(make_claim("one"), make_claim("two"))
    plugin = build(cluster)
    state, pod = CycleState(), claiming_pod("p", "one", "two")
    plugin.pre_filter(state, pod, cluster.nodes)
    assert plugin.trace_allocations(state, pod, "n1") == {
        "default/one": (f"r {DRIVER}/pool/a",),
        "default/two": (f"r {DRIVER}/pool/b",),
    }
    assert plugin.trace_allocations(state, pod, "n2") == {}


def test_a_claim_that_is_named_twice_gets_what_is_found_first() -> None:
    cluster = two_nodes(make_claim("one"))
    plugin = build(cluster)
    state = CycleState()
    entries = [{"name": name, "resourceClaimName": "one"} for name in ("x", "y")]
    pod = make_pod("p").spec(resourceClaims=entries).build()
    plugin.pre_filter(state, pod, cluster.nodes)
    found = {"default/one": (f"r {DRIVER}/pool/a",)}
    assert plugin.trace_allocations(state, pod, "n1") == found
    plugin.reserve(state, pod, "n1")
    pending = ledger_of(cluster).pending(make_claim("one"))
    assert pending is not None
    assert [one.device for one in pending.devices.results] == ["a"]
