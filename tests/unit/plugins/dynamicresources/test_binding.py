from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from stowplan.cluster import Cluster
from stowplan.framework.contract import SKIP, CycleState
from stowplan.framework.status import Status
from stowplan.objects import Pod
from stowplan.objects.devices import AllocatedDeviceStatus
from stowplan.objects.meta import Condition
from stowplan.plugins.dynamicresources.binding import FINALIZER
from stowplan.plugins.dynamicresources.ledger import ledger_of
from stowplan.plugins.dynamicresources.plugin import DynamicResources
from stowplan.testing.builders import make_pod
from tests.unit.plugins.dynamicresources.server import Conflict, Server
from tests.unit.plugins.dynamicresources.world import (
    CLASS,
    DRIVER,
    allocation,
    claiming_pod,
    device,
    make_claim,
    make_class,
    make_cluster,
    make_slice,
)

GPU = "example.com/gpu"


def world(*objects: Any, **slice_fields: Any) -> Server:
    devices = [device("a", **slice_fields), device("b")]
    return Server(make_cluster(make_slice("s", devices), make_class(extendedResourceName=GPU), *objects))


class Cycle:
    """A pod on its way to n1."""

    def __init__(self, server: Server, pod: Pod, plugin: DynamicResources | None = None) -> None:
        self.plugin = plugin or server.plugin()
        self.state = CycleState()
        self.pod = pod
        nodes = server.cluster.nodes
        self.prefilter = self.plugin.pre_filter(self.state, pod, nodes)
        if self.prefilter is None:
            assert self.plugin.filter(self.state, pod, nodes).passed.tolist() == [True]
            assert self.plugin.reserve(self.state, pod, "n1") is None

    def bind(self) -> Status | None:
        return asyncio.run(self.plugin.pre_bind(self.state, self.pod, "n1"))

    def undo(self) -> None:
        self.plugin.unreserve(self.state, self.pod, "n1")


def taken(cluster: Cluster) -> list[str]:
    ledger = ledger_of(cluster)
    ledger.refresh()
    return sorted(name for _, _, name in ledger.state.devices)


@pytest.mark.parametrize("told", [True, False])
def test_what_was_decided_is_written_with_the_pod_as_user(told: bool) -> None:
    server = world(make_claim("claim"))
    server.told = told
    cycle = Cycle(server, claiming_pod("p", "claim"))
    assert taken(server.cluster) == ["a"]
    assert cycle.plugin.pre_bind_preflight(cycle.state, cycle.pod, "n1").status is None
    assert cycle.bind() is None

    claim = server.claim("claim")
    assert claim.status.allocation is not None
    assert [one.device for one in claim.status.allocation.devices.results] == ["a"]
    assert claim.status.allocation.allocation_timestamp == 1_700_000_000.0
    assert [(one.resource, one.name, one.uid) for one in claim.status.reserved_for] == [
        ("pods", "p", cycle.pod.uid)
    ]
    assert server.finalizers("claim") == [FINALIZER]
    assert server.writes == ["patch", "patch status"]
    (first, seen), (second, seen_later) = server.expected
    assert first == second == claim.uid
    assert seen and seen_later and seen != seen_later
    assert taken(server.cluster) == ["a"]
    assert ledger_of(server.cluster).pending(claim) is None


def test_a_second_pod_joins_an_allocated_claim() -> None:
    server = world(make_claim("claim", allocation=allocation("a"), reserved_for=["other"]))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    assert cycle.bind() is None
    assert [one.uid for one in server.claim("claim").status.reserved_for] == ["other", cycle.pod.uid]
    assert server.writes == ["patch status"]


def test_a_claim_that_knows_the_pod_already_is_left_alone() -> None:
    pod = claiming_pod("p", "claim")
    server = world(make_claim("claim", allocation=allocation("a"), reserved_for=[pod.uid]))
    assert Cycle(server, pod).bind() is None
    assert server.writes == []


def test_without_claims_there_is_nothing_to_do() -> None:
    server = world()
    cycle = Cycle(server, make_pod("p").build())
    assert cycle.prefilter == SKIP
    assert cycle.plugin.pre_bind_preflight(cycle.state, cycle.pod, "n1").status == SKIP
    assert cycle.bind() is None
    cycle.undo()


def test_a_claim_that_changed_harmlessly_is_written_at_the_next_attempt() -> None:
    server = world(make_claim("claim"))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    server.change(msgspec.structs.replace(server.claim("claim"), annotations={"a": "b"}))
    assert cycle.bind() is None
    assert server.claim("claim").status.allocation is not None
    assert server.writes == ["patch", "patch", "patch status"]


def test_a_claim_that_somebody_else_allocated_is_an_error() -> None:
    server = world(make_claim("claim"))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    server.change(make_claim("claim", allocation=allocation("b")))
    status = cycle.bind()
    assert status is not None
    assert status.message == "claim default/claim got allocated elsewhere in the meantime"
    cycle.undo()
    assert taken(server.cluster) == ["b"]


@pytest.mark.parametrize("gone", [True, False])
def test_a_claim_that_is_deleted_is_an_error(gone: bool) -> None:
    server = world(make_claim("claim"))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    server.change(msgspec.structs.replace(server.claim("claim"), deleted=1.0))
    if gone:
        server.cluster.remove(server.claim("claim"))
    status = cycle.bind()
    assert status is not None
    assert status.message == "claim default/claim got deleted in the meantime"


def test_a_claim_that_lost_its_devices_is_an_error() -> None:
    server = world(make_claim("claim", allocation=allocation("a")))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    server.change(make_claim("claim"))
    status = cycle.bind()
    assert status is not None
    assert status.message == "claim default/claim got deallocated elsewhere in the meantime"


def test_a_claim_that_keeps_changing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    server = world(make_claim("claim"))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    attempts = []

    async def patch(*_: Any, **__: Any) -> None:
        attempts.append(server.now)
        raise Conflict

    monkeypatch.setattr(server, "patch", patch)
    with pytest.raises(Conflict):
        cycle.bind()
    assert len(attempts) == 6


def test_unreserving_frees_what_was_decided() -> None:
    server = world(make_claim("claim"))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    cycle.undo()
    cycle.undo()
    assert taken(server.cluster) == []
    server.work()
    assert server.writes == []


def test_unreserving_after_writing_takes_the_pod_off_the_claim() -> None:
    server = world(make_claim("claim"))
    cycle = Cycle(server, claiming_pod("p", "claim"))
    cycle.bind()
    cycle.undo()
    server.work()
    claim = server.claim("claim")
    assert claim.status.reserved_for == ()
    assert claim.status.allocation is not None
    assert taken(server.cluster) == ["a"]


# ---------------------------------------------------------------- devices that become ready later


def report(server: Server, kind: str, **more: Any) -> None:
    """The driver says something about device a."""
    claim = server.claim("claim")
    condition = Condition(type=kind, status="True", **more)
    device_status = AllocatedDeviceStatus(driver=DRIVER, pool="pool", device="a", conditions=(condition,))
    status = msgspec.structs.replace(claim.status, devices=(device_status,))
    server.change(msgspec.structs.replace(claim, status=status))


def test_binding_waits_until_the_devices_are_ready() -> None:
    server = world(make_claim("claim"), bindingConditions=["ready"])
    # Devices that become ready later are in the last pool, but here there is only one.
    cycle = Cycle(server, claiming_pod("p", "claim"))
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        server.now += seconds
        if len(waits) == 3:
            report(server, "ready")

    cycle.plugin.handle.host.sleep = sleep  # type: ignore[attr-defined]
    assert cycle.bind() is None
    assert waits == [5.0, 5.0, 5.0]


def test_binding_fails_when_a_device_does() -> None:
    server = world(make_claim("claim"), bindingConditions=["ready"], bindingFailureConditions=["broken"])
    cycle = Cycle(server, claiming_pod("p", "claim"))

    async def sleep(seconds: float) -> None:
        report(server, "broken", reason="Hot", message="too hot")

    cycle.plugin.handle.host.sleep = sleep  # type: ignore[attr-defined]
    status = cycle.bind()
    assert status is not None
    assert status.message == 'device binding failed: claim=claim, reason=Hot, message="too hot"'


def test_binding_gives_up_after_a_while() -> None:
    server = world(make_claim("claim"), bindingConditions=["ready"])
    started = server.now
    status = Cycle(server, claiming_pod("p", "claim")).bind()
    assert status is not None
    assert status.message.startswith("device binding timeout")
    assert server.now - started == pytest.approx(600, abs=6)


# ---------------------------------------------------------------- extended resources


def gpu_pod() -> Pod:
    return make_pod("p").requests({GPU: "2"}).build()


@pytest.mark.parametrize("told", [True, False])
def test_a_claim_is_made_for_extended_resources(told: bool) -> None:
    server = world()
    server.told = told
    cycle = Cycle(server, gpu_pod())
    assert taken(server.cluster) == ["a", "b"]
    assert cycle.bind() is None
    claim = server.claim("p-extended-resources-x1")
    assert claim.status.allocation is not None
    assert [one.request for one in claim.status.allocation.devices.results] == ["container-0-request-0"] * 2
    assert claim.spec.devices.requests[0].exactly is not None
    assert claim.spec.devices.requests[0].exactly.device_class_name == CLASS
    assert server.writes == ["create", "patch", "patch status", "patch status"]
    assert server.pod_patches == [
        {
            "status": {
                "extendedResourceClaimStatus": {
                    "resourceClaimName": claim.name,
                    "requestMappings": [
                        {
                            "containerName": "main-0",
                            "resourceName": GPU,
                            "requestName": "container-0-request-0",
                        }
                    ],
                }
            }
        }
    ]
    assert taken(server.cluster) == ["a", "b"]


@pytest.mark.parametrize("told", [True, False])
def test_a_claim_for_extended_resources_goes_with_its_pod(told: bool) -> None:
    server = world()
    server.told = told
    cycle = Cycle(server, gpu_pod())
    cycle.bind()
    cycle.undo()
    assert taken(server.cluster) == (["a", "b"] if told else [])
    server.work()
    assert server.deleted == ["p-extended-resources-x1"]
    assert server.finalizers("p-extended-resources-x1") == []
    assert taken(server.cluster) == []


def test_a_claim_that_was_only_thought_of_leaves_no_trace() -> None:
    server = world()
    cycle = Cycle(server, gpu_pod())
    cycle.undo()
    server.work()
    assert server.writes == []
    assert server.deleted == []
    assert taken(server.cluster) == []


# ---------------------------------------------------------------- answers that do not come


class Lost(Exception):  # noqa: N818 - as a client names it
    """No answer came, or one that leaves open whether anything was written."""

    def __init__(self, status: int = 0, reason: str = "Uncertain") -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


def lose(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    *,
    after: bool,
    looks: Sequence[Exception] = (),
) -> list[Mapping[str, Any]]:
    """The answer to the first write of an allocation is lost, `after` it was carried out or before; the first
    looks at the claim fail like this. Returns the looks."""
    carry_out, looked, in_vain = server.patch, list[Mapping[str, Any]](), list(looks)
    lost = False

    async def patch(obj: Any, patch: Mapping[str, Any], *, subresource: str = "") -> Any:
        nonlocal lost
        if lost and patch == {"metadata": {"uid": obj.uid}}:
            looked.append(patch)
            if in_vain:
                raise in_vain.pop(0)
            return server.claim(obj.name)
        if lost or not subresource:
            return await carry_out(obj, patch, subresource=subresource)
        lost = True
        if after:
            await carry_out(obj, patch, subresource=subresource)
        raise problem

    monkeypatch.setattr(server, "patch", patch)
    return looked


@pytest.mark.parametrize("after", [True, False], ids=["carried out", "never arrived"])
@pytest.mark.parametrize("problem", [Lost(), Lost(504, "Timeout")], ids=["cut", "timeout"])
def test_what_came_of_a_write_without_an_answer_is_looked_up(
    problem: Exception, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices would be given to another claim else, as soon as the pod is taken back."""
    server = world(make_claim("claim"), make_claim("other"))
    server.told = False
    away = (Lost(), Lost(503, "ServiceUnavailable"), Lost(0, "Unreachable"))
    looked = lose(server, monkeypatch, problem, after=after, looks=away)
    cycle = Cycle(server, claiming_pod("p", "claim"))
    assert cycle.bind() is None
    assert len(looked) == 4
    assert server.now > 1_700_000_000.0
    claim = server.claim("claim")
    assert claim.status.allocation is not None
    assert [one.uid for one in claim.status.reserved_for] == [cycle.pod.uid]
    assert Cycle(server, claiming_pod("q", "other")).bind() is None
    other = server.claim("other").status.allocation
    assert other is not None
    assert [one.device for one in other.devices.results] == ["b"]


@pytest.mark.parametrize("status", [404, 409, 422])
def test_a_claim_that_is_gone_when_it_is_looked_up_is_an_error(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world(make_claim("claim"))
    lose(server, monkeypatch, Lost(), after=False, looks=(Lost(status, "NotFound"),))
    answer = Cycle(server, claiming_pod("p", "claim")).bind()
    assert answer is not None
    assert answer.message == "claim default/claim got deleted in the meantime"


def test_a_claim_that_may_not_be_looked_at_leaves_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    server = world(make_claim("claim"))
    lose(server, monkeypatch, Lost(), after=False, looks=(Lost(403, "Forbidden"),))
    with pytest.raises(Lost, match="Forbidden"):
        Cycle(server, claiming_pod("p", "claim")).bind()


def test_a_server_that_never_answers_clearly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    server = world(make_claim("claim"))
    carry_out, attempts = server.patch, list[str]()

    async def patch(obj: Any, patch: Mapping[str, Any], *, subresource: str = "") -> Any:
        if subresource:
            attempts.append(obj.name)
            raise Lost(500, "InternalError")
        return await carry_out(obj, patch, subresource=subresource)

    monkeypatch.setattr(server, "patch", patch)
    with pytest.raises(Lost, match="InternalError"):
        Cycle(server, claiming_pod("p", "claim")).bind()
    assert len(attempts) == 6
