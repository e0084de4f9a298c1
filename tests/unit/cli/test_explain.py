"""`stowplan explain`, on the demo's cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stowplan.cli
from stowplan.cli.explain import as_text
from stowplan.cli.main import main
from stowplan.engine import Trace

CLUSTER = str(Path(stowplan.cli.__file__).with_name("demo_cluster.yaml"))


def explain(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", "-f", CLUSTER, *words]) == 0
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 1
    return capsys.readouterr().err


def test_a_pod_that_fits_is_told_where_it_goes_and_what_each_node_scored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = explain(capsys, "search").splitlines()
    assert lines[0] == "Pod default/search: goes to beta-ssd"
    assert any(line.startswith("alpha-1  ") and "NodeAffinity" in line for line in lines)
    scored = explain(capsys, "default/plain").splitlines()
    assert "NodeResourcesBalancedAllocation" in scored[2]
    assert [line.split()[0] for line in scored[3:7]] == ["beta-1", "beta-ssd", "alpha-2", "alpha-1"]


def test_a_pod_that_fits_nowhere_is_told_who_rejected_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown = explain(capsys, "giant")
    assert shown.startswith("Pod default/giant: 0/6 nodes are available: ")
    assert "\n\nPreemption would not help: 0/6 nodes are available: 6 Preemption is not " in shown
    assert "alpha-1        NodeResourcesFit" in shown


def test_it_says_where_preemption_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    preemption = json.loads(explain(capsys, "urgent", "-o", "json"))["preemption"]
    assert preemption["candidates"]["alpha-2"]["pods"] == ["default/batch-2"]
    assert preemption["chosen"] == ["alpha-2"]


def test_who_rejected_a_node_is_data_with_upstreams_names(capsys: pytest.CaptureFixture[str]) -> None:
    trace = json.loads(explain(capsys, "training", "-o", "json"))
    assert trace["rejected"]["alpha-1"] == {
        "plugin": "NodeResourcesFit",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["Insufficient cpu", "Insufficient nvidia.com/gpu"],
    }
    assert trace["scores"]["alpha-gpu"]["TaintToleration"] == {"raw": 0, "normalized": 100, "weighted": 300}
    assert trace["totals"] == {"alpha-gpu": sum(s["weighted"] for s in trace["scores"]["alpha-gpu"].values())}
    assert (trace["best"], trace["held_back"]) == (["alpha-gpu"], None)


def test_a_pod_that_is_not_even_tried_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(capsys, "gated").startswith(
        "Pod default/gated: held back by SchedulingGates: waiting for scheduling gates: [example.com/quota]. "
        "Without that: goes to "
    )
    held_back = json.loads(explain(capsys, "gated", "-o", "json"))["held_back"]
    assert (held_back["plugin"], held_back["code"]) == ("SchedulingGates", "UnschedulableAndUnresolvable")


def test_in_an_empty_cluster_there_is_no_node(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("{apiVersion: v1, kind: Pod, metadata: {name: alone}}")
    assert main(["explain", "-f", str(file), "alone"]) == 0
    assert capsys.readouterr().out == "Pod default/alone: no nodes available to schedule pods\n"


def test_warnings_about_the_configuration_are_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
        "extenders: [{urlPrefix: 'http://h'}]}"
    )
    assert main(["explain", "-f", CLUSTER, "--config", str(file), "plain"]) == 0
    warning = "extenders[0]: is not called: decisions are made without extenders (warning)"
    assert capsys.readouterr().err == f"{file}:1: {warning}\n"


def test_a_narrowed_search_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: agent}, spec: {affinity: {nodeAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: "
        "[{key: metadata.name, operator: In, values: [alpha-2]}]}]}}}}}"
    )
    lines = explain(capsys, "-f", str(file), "agent").splitlines()
    assert lines[0] == "Pod default/agent: goes to alpha-2"
    assert lines[2].endswith("PreFilter plugins want it: alpha-2")


def test_a_narrowed_search_may_find_no_node(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: agent}, spec: {affinity: {nodeAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: "
        "[{key: metadata.name, operator: In, values: [gone]}]}]}}}}}"
    )
    assert "\n\nOnly these nodes were looked at, as PreFilter plugins want it: none of those that they " in (
        explain(capsys, "-f", str(file), "agent")
    )


def test_a_pod_that_pre_filter_rejects_is_told_by_which_plugin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: lost}, "
        "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: gone}}]}}"
    )
    assert explain(capsys, "-f", str(file), "lost").splitlines()[2] == (
        "No node was looked at: PreFilter of VolumeRestrictions says UnschedulableAndUnresolvable"
    )


def test_where_a_pod_goes_is_said_in_one_line() -> None:
    many = tuple(f"n{number}" for number in range(9))
    assert as_text(Trace(pod="default/p", best=many)) == (
        "Pod default/p: goes to n0 or n1 or n2 or n3 or n4 or another of 9 that score the same"
    )
    promised = as_text(Trace(pod="default/p", best=many, promised="n7", search_ends_after=5)).split("\n\n")
    assert promised[0] == "Pod default/p: goes to n7, which it is nominated to"
    assert promised[1].endswith(
        "a decision looks no further than 5 nodes that can take the pod. Here all nodes are looked at."
    )


def test_devices_that_should_have_been_ready_long_ago_are_not_waited_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    device = {"request": "r", "driver": "d", "pool": "p", "device": "a", "bindingConditions": ["Ready"]}
    allocation = {"devices": {"results": [device]}, "allocationTimestamp": "2020-01-01T00:00:00Z"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "status": {"allocation": allocation},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "x", "resourceClaimName": "c"}]},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"pods": "1"}},
    }
    manifests = tmp_path / "list.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim, pod, node]}))
    assert main(["explain", "-f", str(manifests), "p"]) == 0
    assert "1 resourceclaim not available on the node" in capsys.readouterr().out


def test_devices_that_a_claim_would_be_given_are_shown() -> None:
    trace = Trace(
        pod="default/p", best=("one",), allocations={"one": {"default/gpu": ("a d/p/0", "b d/p/1")}}
    )
    assert as_text(trace).splitlines()[-2:] == [
        "NODE  CLAIM        WOULD BE GIVEN",
        "one   default/gpu  a d/p/0, b d/p/1",
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-f", CLUSTER, "nobody"), "there is no pod default/nobody; pods without a node: "),
        (("-f", CLUSTER, "database"), "pod default/database is on alpha-1 already"),
        (("-f", "no-such-file.yaml", "web-1"), "no-such-file.yaml: No such file or directory"),
    ],
)
def test_what_the_user_can_put_right_is_said(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    assert fails(capsys, *words).startswith(f"stowplan: {complaint}")
