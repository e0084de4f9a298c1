"""Two replicas: one schedules, the other takes over, whether the first one could say goodbye or not."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.e2e.stage import Stage, eventually
from tests.e2e.test_run import Running, scheduler

pytestmark = pytest.mark.control_plane

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/replicated"
FLAGS = (
    "--scheduler-name=replicated",
    "--leader-elect-resource-name=replicated",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=300ms",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
)


@pytest.fixture
def calm(long_running_stage: Stage) -> Iterator[Stage]:
    yield long_running_stage
    long_running_stage.clear()


def holder(stage: Stage) -> str:
    found: str = stage.api.get(LEASE)["spec"].get("holderIdentity", "")
    return found


def replica(stage: Stage, folder: Path, name: str) -> AbstractContextManager[Running]:
    return scheduler(stage.plane, folder / name, *FLAGS)


def leads(running: Running) -> bool:
    return "leading" in running.log.read_text()


def has_decided(stage: Stage, running: Running) -> bool:
    text = running.get("/metrics", stage.plane.token)[1]
    return "scheduler_schedule_attempts_total{" in text


def test_another_replica_takes_over(calm: Stage, tmp_path: Path) -> None:
    stage = calm
    stage.node("one", cpu="64")

    def make(*names: str) -> None:
        for name in names:
            stage.pod(name, scheduler="replicated")

    names = [f"p{number}" for number in range(50)]
    with replica(stage, tmp_path, "first") as first:
        eventually(lambda: leads(first))
        with replica(stage, tmp_path, "second") as second:
            make(*names[:10])
            assert {stage.placed(name) for name in names[:10]} == {"one"}
            assert not leads(second)
            assert not has_decided(stage, second), "only the one with the lease may decide"
            holders = [holder(stage)]

            make(*names[10:20])
            first.process.send_signal(signal.SIGTERM)  # in the middle of these
            make(*names[20:30])
            assert {stage.placed(name) for name in names[:30]} == {"one"}
            assert first.process.wait(timeout=20) == 0
            holders.append(eventually(lambda: holder(stage)))  # by now all may be placed

            with replica(stage, tmp_path, "third") as third:
                make(*names[30:40])
                second.process.send_signal(signal.SIGKILL)  # and of these
                make(*names[40:])
                assert {stage.placed(name) for name in names} == {"one"}
                assert leads(third)
                holders.append(holder(stage))
                assert third.end() == 0
    assert len(set(holders)) == 3
    assert "" not in holders
    assert holder(stage) == "", "whoever ends in order gives the lease back"
    # Whatever happened: no pod was bound twice.
    assert all(len(stage.events(name, "Scheduled")) <= 1 for name in names)
