"""VolumeBinding's PreBind: what is written, and how long it waits for what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stowplan.cluster import Cluster
from stowplan.framework import Code, CycleState, Status
from stowplan.plugins.volumes.binding import VolumeBinding
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.volumes.world import DONE, ZONE, a_claim, a_class, a_volume, judged, world

POD = make_pod("p").pvc("c").build()
BOUND_BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}
Happens = Callable[[Cluster], None]


class Outside:
    """An API server and a volume controller in one: takes patches, and makes things happen in time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.time = 0.0
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.happens: list[tuple[float, Happens]] = []
        self.fails_on = ""
        self.answer: Callable[[Any], Any] = lambda obj: obj
        self.looks: list[float] = []

    async def patch(self, obj: Any, patch: dict[str, Any], *, subresource: str = "") -> Any:
        if obj.name == self.fails_on:
            raise OSError("the server is gone")
        self.patches.append((obj.name, patch))
        assert patch["metadata"]["resourceVersion"] == obj.resource_version
        return self.answer(msgspec.structs.replace(obj, resource_version="100"))

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.looks.append(seconds)
        for when, happen in list(self.happens):
            if when <= self.time:
                self.happens.remove((when, happen))
                happen(self.cluster)

    def plugin(self, timeout: int = 600) -> VolumeBinding:
        plugin = build_plugin(VolumeBinding, self.cluster, bindTimeoutSeconds=timeout)
        handle: Any = plugin.handle
        handle.host.client = self
        handle.host.now = lambda: self.time
        handle.host.sleep = self.sleep
        return plugin


def pre_bind(outside: Outside, plugin: VolumeBinding | None = None) -> Status | None:
    """Reserves, places and pre-binds the pod on na, as the engine does."""
    plugin = plugin or outside.plugin()
    cluster, state = outside.cluster, CycleState()
    assert plugin.pre_filter(state, POD, cluster.nodes) is None
    assert plugin.reserve(state, POD, "na") is None
    cluster.assume(POD, "na")
    return asyncio.run(plugin.pre_bind(state, POD, "na"))


def static() -> Outside:
    """A claim and a volume that will do."""
    classes = a_class("static", "kubernetes.io/no-provisioner")
    claim = a_claim("c", storage_class="static")
    volume = a_volume("v", storage_class="static", on={ZONE: ["a"]})
    return Outside(world(classes, claim, volume, nodes={"na": {ZONE: "a"}}))


def dynamic() -> Outside:
    """A claim and a class that makes volumes."""
    return Outside(world(a_class("wait"), a_claim("c"), nodes={"na": {ZONE: "a"}}))


def volume_comes(**more: Any) -> Happens:
    """The volume comes back from the server, naming the claim."""
    settled = {"claim": "c", "claim_uid": "uid-c", "metadata": {"resourceVersion": "100"}, **more}
    return lambda cluster: cluster.add(a_volume("v", storage_class="static", **settled))


def claim_comes(volume: str = "v", node: str = "na", *, done: bool = True, version: str = "101") -> Happens:
    """The claim comes back from the server, bound."""
    annotations = {"volume.kubernetes.io/selected-node": node, **(DONE if done else {})}
    claim = a_claim("c", volumeName=volume, annotations=annotations, metadata={"resourceVersion": version})
    return lambda cluster: cluster.add(claim)


def error(text: str) -> Status:
    return Status(Code.ERROR, (text,))


def test_a_volume_is_made_to_name_its_claim_and_the_claim_is_waited_for() -> None:
    outside = static()
    outside.happens = [(1.0, volume_comes()), (3.0, claim_comes())]
    assert pre_bind(outside) is None
    assert 3.0 <= outside.time < 4.5
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "c"}
    reference |= {"uid": "uid-c", "resourceVersion": "7"}
    assert outside.patches == [
        (
            "v",
            {
                "metadata": {"resourceVersion": "3", "annotations": BOUND_BY_CONTROLLER},
                "spec": {"claimRef": reference},
            },
        )
    ]


def test_a_claim_is_made_to_name_its_node_and_is_waited_for() -> None:
    outside = dynamic()
    made = claim_comes()
    outside.happens = [(1.0, claim_comes("", done=False)), (2.0, made)]
    outside.happens.append((2.0, volume_comes(on={ZONE: ["a"]})))
    assert pre_bind(outside) is None
    selected = {"volume.kubernetes.io/selected-node": "na"}
    assert outside.patches == [("c", {"metadata": {"resourceVersion": "7", "annotations": selected}})]


def test_a_volume_that_was_promised_by_hand_is_completed_without_claiming_the_credit() -> None:
    outside = static()
    outside.cluster.add(a_volume("v", storage_class="static", claim="c"))
    outside.happens = [(1.0, volume_comes()), (1.0, claim_comes())]
    assert pre_bind(outside) is None
    ((_, patch),) = outside.patches
    assert "annotations" not in patch["metadata"] and patch["spec"]["claimRef"]["uid"] == "uid-c"


def test_a_volume_that_names_the_claim_completely_is_not_written_again() -> None:
    outside = static()
    outside.cluster.add(a_volume("v", storage_class="static", claim="c", claim_uid="uid-c"))
    outside.happens = [(1.0, claim_comes())]
    assert pre_bind(outside) is None
    assert outside.patches == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda obj: obj,
        lambda obj: {"metadata": {"name": obj.name, "resourceVersion": obj.resource_version}},
        lambda obj: None,
    ],
)
def test_what_has_not_come_back_from_the_server_yet_is_waited_for(answer: Callable[[Any], Any]) -> None:
    """The old volume without a claim, and the old claim without a node, are no failures."""
    for outside in (static(), dynamic()):
        outside.answer = answer
        outside.happens = [(5.0, volume_comes(on={ZONE: ["a"]})), (5.0, claim_comes())]
        assert pre_bind(outside) is None
        assert outside.time >= 5.0


def test_it_looks_often_at_first_and_every_second_later() -> None:
    outside = static()
    outside.happens = [(4.0, volume_comes()), (4.0, claim_comes())]
    assert pre_bind(outside) is None
    assert outside.looks[:7] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize("outside", [static(), dynamic()])
def test_waiting_ends(outside: Outside) -> None:
    assert pre_bind(outside, outside.plugin(timeout=30)) == error(
        "binding volumes: context deadline exceeded"
    )
    assert outside.time == pytest.approx(30)


def test_without_time_to_wait_it_fails_at_once() -> None:
    outside = static()
    status = pre_bind(outside, outside.plugin(timeout=0))
    assert status == error("binding volumes: context deadline exceeded")


@pytest.mark.parametrize(
    ("happens", "problem"),
    [
        ([claim_comes(node="", done=False)], 'provisioning failed for PVC "c"'),
        (
            [lambda cluster: cluster.add(a_claim("c", metadata={"resourceVersion": "101"}))],
            'selectedNode annotation reset for PVC "c"',
        ),
        (
            [lambda cluster: cluster.remove(a_claim("c"))],
            'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
        ),
        (
            [claim_comes(), volume_comes(on={ZONE: ["b"]})],
            'pv "v" node affinity doesn\'t match node "na": no matching NodeSelectorTerms',
        ),
        (
            [lambda cluster: cluster.remove_pod(POD.uid)],
            'pod does not exist any more: pod "p" not found',
        ),
        (
            [lambda cluster: cluster.remove_node("na")],
            'failed to get node "na": node "na" not found',
        ),
    ],
)
def test_making_a_volume_can_fail(happens: list[Happens], problem: str) -> None:
    outside = dynamic()
    outside.happens = [(1.0, happen) for happen in happens]
    assert pre_bind(outside) == error(f"binding volumes: {problem}")


@pytest.mark.parametrize(
    ("happens", "problem"),
    [
        ([volume_comes(claim="")], 'ClaimRef got reset for pv "v"'),
        (
            [lambda cluster: cluster.remove(a_volume("v"))],
            'failed to check binding: persistentvolumes "v" not found',
        ),
        (
            [lambda cluster: cluster.remove(a_claim("c"))],
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
        (
            [volume_comes(on={ZONE: ["b"]})],
            'pv "v" node affinity doesn\'t match node "na": no matching NodeSelectorTerms',
        ),
    ],
)
def test_binding_a_volume_can_fail(happens: list[Happens], problem: str) -> None:
    outside = static()
    outside.happens = [(1.0, happen) for happen in happens]
    assert pre_bind(outside) == error(f"binding volumes: {problem}")


def test_a_claim_whose_new_volume_is_not_known_yet_is_waited_for() -> None:
    outside = dynamic()
    outside.happens = [(1.0, claim_comes()), (4.0, volume_comes(on={ZONE: ["a"]}))]
    assert pre_bind(outside) is None
    assert outside.time >= 4.0


def test_what_could_not_be_written_is_given_back_and_what_was_written_stays() -> None:
    cluster = world(
        a_class("static", "kubernetes.io/no-provisioner"),
        a_claim("c", storage_class="static", size="1Gi"),
        a_claim("d", storage_class="static", size="2Gi"),
        a_volume("v1", storage_class="static", size="1Gi"),
        a_volume("v2", storage_class="static", size="2Gi"),
        nodes={"na": {}},
    )
    outside = Outside(cluster)
    outside.fails_on = "v2"
    plugin = outside.plugin()
    pod = make_pod("p").pvc("c", "d").build()
    state = CycleState()
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    assert plugin.reserve(state, pod, "na") is None
    with pytest.raises(OSError, match="the server is gone"):
        asyncio.run(plugin.pre_bind(state, pod, "na"))
    plugin.unreserve(state, pod, "na")
    assert [name for name, _ in outside.patches] == ["v1"]
    cluster.add(a_claim("e", storage_class="static", size="1Gi"))
    assert judged(plugin, make_pod("q").pvc("e").build(), cluster) == {}
    assert set(judged(plugin, make_pod("q").pvc("e", "d").build(), cluster)) == {"na"}


def test_a_pod_without_claims_needs_nothing() -> None:
    outside = dynamic()
    assert asyncio.run(outside.plugin().pre_bind(CycleState(), make_pod("q").build(), "na")) is None
