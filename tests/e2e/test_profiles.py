"""Several profiles in one scheduler, and two schedulers on one cluster: each minds its own pods."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane import binaries
from tests.e2e.stage import CONFIG, Stage, eventually
from tests.e2e.test_shadow import running

pytestmark = pytest.mark.control_plane

PROFILES = CONFIG.index("profiles:")


def test_each_profile_decides_in_its_own_way(stage: Stage) -> None:
    stage.node("empty")
    stage.node("in-use")
    stage.running_pod("tenant", "in-use", cpu="2")
    for number in range(3):
        stage.pod(f"wide-{number}", cpu="100m")
        stage.pod(f"packed-{number}", cpu="100m", scheduler="packing")
    for number in range(3):
        assert stage.placed(f"wide-{number}") == "empty"
        assert stage.placed(f"packed-{number}") == "in-use"
    for name, profile in (("wide-0", "stowplan"), ("packed-0", "packing")):
        pod = stage.get_pod(name)
        event = eventually(lambda name=name: stage.events(name, "Scheduled"))[0]  # type: ignore[misc]
        assert event["reportingController"] == profile, pod


def test_pods_of_a_scheduler_that_is_not_there_are_left_alone(stage: Stage) -> None:
    stage.node("one")
    stage.pod("stranger", scheduler="nobody")
    stage.settle()
    assert stage.node_of("stranger") == ""
    assert "conditions" not in stage.get_pod("stranger")["status"]
    assert stage.waiting("unschedulable") == 0


@pytest.fixture
def upstream(stage: Stage, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """kube-scheduler, for the pods that name no scheduler."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG[:PROFILES].replace("KUBECONFIG", str(stage.plane.kubeconfig)))
    command = [str(binaries.folder() / "kube-scheduler"), f"--config={config}", "--secure-port=0"]
    with running(command, tmp_path / "log") as process:
        yield process
        assert process.poll() is None, (tmp_path / "log").read_text()


@pytest.mark.usefixtures("upstream")
def test_two_schedulers_side_by_side(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.node(name, cpu="8")
    owners = {}
    for number in range(20):
        owners[f"ours-{number}"] = "stowplan"
        stage.pod(f"ours-{number}", cpu="100m")
        owners[f"theirs-{number}"] = "default-scheduler"
        stage.pod(f"theirs-{number}", cpu="100m", scheduler="default-scheduler")
    for name, owner in owners.items():
        stage.placed(name)
        event = eventually(lambda name=name: stage.events(name, "Scheduled"))[0]  # type: ignore[misc]
        assert event["reportingController"] == owner
        assert stage.events(name, "FailedScheduling") == []

    # Each counts what the other has placed.
    for name in ("theirs", "more-of-theirs"):
        stage.pod(name, cpu="5", scheduler="default-scheduler")
        stage.placed(name)
    stage.settle()
    stage.pod("ours", cpu="5")
    stage.refused("ours", "0/2 nodes are available: 2 Insufficient cpu.")
    stage.delete_pod("theirs")
    freed = stage.placed("ours")
    stage.pod("last", cpu="5", scheduler="default-scheduler")
    stage.refused("last", "0/2 nodes are available: 2 Insufficient cpu.")
    stage.delete_pod("ours")
    assert stage.placed("last") == freed
