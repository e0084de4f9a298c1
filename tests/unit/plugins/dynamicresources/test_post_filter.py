from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from stowplan.cluster import Cluster
from stowplan.framework.contract import CycleState
from stowplan.framework.decision import Rejections
from stowplan.framework.status import Code
from stowplan.objects import Pod
from stowplan.testing.builders import make_pod
from tests.unit.plugins.dynamicresources.server import Server
from tests.unit.plugins.dynamicresources.world import (
    CLASS,
    allocation,
    claiming_pod,
    device,
    make_claim,
    make_class,
    make_cluster,
    make_slice,
    reasons,
)

GPU = "example.com/gpu"
NO_DEVICES = "cannot allocate all claims"


def two_nodes(*objects: Any) -> Cluster:
    """n1 has two devices, n2 has none."""
    return make_cluster(
        make_slice("s", [device("a"), device("b")], nodeName="n1"), make_class(), *objects, nodes=["n1", "n2"]
    )


def test_a_claim_left_over_from_before_stands_in_the_way_until_it_is_deleted() -> None:
    left = make_claim(
        "p-extended-resources-x",
        annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
        ownerReferences=[{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
    )
    pod = make_pod("p").uid("uid-p").requests({GPU: "1"}).build()
    cluster = two_nodes(make_class(CLASS, extendedResourceName=GPU), left)
    server = Server(cluster)
    plugin = server.plugin()
    message = "cannot schedule extended resource claim"
    assert reasons(plugin, cluster, pod) == {"n1": message, "n2": message}
    state = CycleState()
    plugin.pre_filter(state, pod, cluster.nodes)
    result = plugin.post_filter(state, pod, Rejections(cluster))
    assert result.status is not None
    assert result.status.message == "deletion of ResourceClaim completed"
    server.work()
    assert server.deleted == ["p-extended-resources-x"]
    assert reasons(plugin, cluster, pod) == {"n2": NO_DEVICES}


def post_filter(server: Server, pod: Pod, *, by_us: bool = True) -> str:
    """The message of PostFilter after all nodes were rejected, by this plugin or by another."""
    plugin, cluster = server.plugin(), server.cluster
    state = CycleState()
    plugin.pre_filter(state, pod, cluster.nodes)
    verdict = plugin.filter(state, pod, cluster.nodes)
    number = (verdict.codes != 0).astype(np.int64) if by_us else np.zeros(len(cluster.nodes), np.int64)
    result = plugin.post_filter(
        state, pod, Rejections(cluster, rejected_by=number, verdicts=[(plugin.name, verdict)])
    )
    assert result.status is not None
    assert result.status.code is Code.UNSCHEDULABLE
    server.work()
    return result.status.message


@pytest.mark.parametrize(("reserved", "given_back"), [((), True), (("uid-p",), True), (("other",), False)])
def test_a_claim_in_the_way_is_given_back_unless_others_use_it(reserved: Any, given_back: bool) -> None:
    claim = make_claim("claim", allocation=allocation("a", node="gone"), reserved_for=reserved)
    server = Server(two_nodes(claim))
    pod = msgspec.structs.replace(claiming_pod("p", "claim"), uid="uid-p")
    message = post_filter(server, pod)
    assert message == ("deallocation of ResourceClaim completed" if given_back else "still not schedulable")
    assert (server.claim("claim").status.allocation is None) is given_back
    if given_back:
        assert server.claim("claim").status.reserved_for == ()


def test_a_claim_that_no_node_was_rejected_for_stays() -> None:
    server = Server(two_nodes(make_claim("claim", allocation=allocation("a", node="gone"))))
    assert post_filter(server, claiming_pod("p", "claim"), by_us=False) == "still not schedulable"


def test_without_claims_there_is_nothing_to_give_back() -> None:
    plugin = Server(two_nodes()).plugin()
    result = plugin.post_filter(CycleState(), make_pod("p").build(), Rejections(plugin.handle.cluster))
    assert result.status is not None
    assert result.status.message == "no new claims to deallocate"
