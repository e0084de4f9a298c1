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


def attempts_of(stage: Stage, running: Running) -> bool:
    text = running.get("/metrics", stage.plane.token)[1]
    return "scheduler_schedule_attempts_total{" in text


@pytest.mark.parametrize("last_signal", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_another_replica_takes_over(calm: Stage, tmp_path: Path, last_signal: signal.Signals) -> None:
    stage = calm
    stage.node("one", cpu="64")
    names = [f"p{number}" for number in range(60)]
    with replica(stage, tmp_path, "first") as first:
        eventually(lambda: leads(first))
        with replica(stage, tmp_path, "second") as second:
            for name in names[:20]:
                stage.pod(name, scheduler="replicated")
            assert {stage.placed(name) for name in names[:20]} == {"one"}
            before = holder(stage)
            assert not leads(second)
            assert not attempts_of(stage, second), "only the one with the lease may decide"

            for name in names[20:40]:
                stage.pod(name, scheduler="replicated")
            first.process.send_signal(last_signal)  # in the middle of these
            for name in names[40:]:
                stage.pod(name, scheduler="replicated")
            assert {stage.placed(name) for name in names} == {"one"}
            assert first.process.wait(timeout=20) == (0 if last_signal is signal.SIGTERM else -last_signal)
            assert leads(second)
            assert holder(stage) not in ("", before)
            assert second.end() == 0
    assert holder(stage) == ""
    # Whatever happened: each was bound once, and nothing was said against it.
    for name in names:
        assert len(stage.events(name, "Scheduled")) <= 1
