from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects import Pod, decode_pod
from stowplan.ops.resources import resource_metrics, unit_of


def a_pod(name: str, node: str = "", phase: str = "Pending", **spec: Any) -> Pod:
    return decode_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"nodeName": node, "priority": 7, "schedulerName": "default-scheduler", **spec},
            "status": {"phase": phase},
        }
    )


def container(requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits or {}}}


def lines(*pods: Pod) -> list[str]:
    return b"".join(resource_metrics(pods)).decode().splitlines()


def test_requests_and_limits_of_a_pod() -> None:
    pod = a_pod("p", "n1", containers=[container({"cpu": "100m", "memory": "1Gi"}, {"cpu": "2"})])
    start = 'namespace="ns",node="n1",pod="p",priority="7"'
    end = 'scheduler="default-scheduler",unit='
    assert [line for line in lines(pod) if not line.startswith("#")] == [
        f'kube_pod_resource_limit{{{start},resource="cpu",{end}"cores"}} 2',
        f'kube_pod_resource_request{{{start},resource="cpu",{end}"cores"}} 0.1',
        f'kube_pod_resource_request{{{start},resource="memory",{end}"bytes"}} 1073741824',
    ]


def test_amounts_are_exact_sums() -> None:
    pod = a_pod("p", containers=[container({"cpu": "500u"}), container({"cpu": "1500u"})])
    assert any(line.endswith(" 0.002") for line in lines(pod))


def test_overhead_counts_on_top_where_there_is_a_limit() -> None:
    pod = a_pod(
        "p",
        containers=[container({"cpu": "1"}, {"memory": "1Gi"})],
        overhead={"cpu": "1", "memory": "1Gi"},
    )
    text = "\n".join(lines(pod))
    assert 'kube_pod_resource_request{namespace="ns",node="",pod="p",priority="7",resource="cpu"' in text
    limits = [line for line in lines(pod) if line.startswith("kube_pod_resource_limit")]
    assert len(limits) == 1
    assert limits[0].endswith(" 2147483648")


def test_finished_pods_use_nothing() -> None:
    done = a_pod("done", "n1", "Succeeded", containers=[container({"cpu": "1"})])
    assert not [line for line in lines(done) if not line.startswith("#")]


def test_many_pods_come_in_pieces() -> None:
    pods = [a_pod(f"p{n}", containers=[container({"cpu": "1"})]) for n in range(2000)]
    pieces = list(resource_metrics(pods))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 100_000


@pytest.mark.parametrize(
    ("resource", "unit"),
    [
        ("cpu", "cores"),
        ("memory", "bytes"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-2Mi", "bytes"),
        ("attachable-volumes-csi-x", "integer"),
        ("example.com/gpu", ""),
    ],
)
def test_units(resource: str, unit: str) -> None:
    assert unit_of(resource) == unit
