"""One API server with one scheduler for all modules that need no scheduler of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.control_plane import binaries
from tests.control_plane.plane import Options, start
from tests.e2e.stage import CONFIG, Stage
from tests.e2e.test_run import scheduler


@pytest.fixture(scope="session")
def long_running_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if advice := binaries.missing():
        pytest.skip(advice)
    folder = tmp_path_factory.mktemp("stage")
    # Without the controllers that take finalizers away, claims and volumes would stay for ever.
    arguments = ("--disable-admission-plugins=StorageObjectInUseProtection",)
    with start(Options(apiserver_arguments=arguments)) as plane:
        config = folder / "config.yaml"
        config.write_text(CONFIG.replace("KUBECONFIG", str(plane.kubeconfig)))
        with (
            scheduler(plane, folder / "log", f"--config={config}") as running,
            plane.client() as api,
            closing(Stage(plane, api, running)) as stage,
        ):
            yield stage
            log = running.log.read_text()
            assert "Traceback" not in log, log


@pytest.fixture
def stage(long_running_stage: Stage) -> Iterator[Stage]:
    """The stage, empty before and after the test."""
    yield long_running_stage
    long_running_stage.clear()
