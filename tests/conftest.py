"""What all tests share: the rules of property tests and of the `control_plane` marker, and its fixtures."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from tests.control_plane import binaries
from tests.control_plane.plane import ControlPlane, Options, start

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# How long an example takes says more about the machine than about the code. In CI the same tree must get the
# same verdict: new examples are looked for wherever else the tests run.
settings.register_profile("stowplan", deadline=None)
settings.register_profile("stowplan in CI", deadline=None, derandomize=True)
settings.load_profile("stowplan in CI" if IN_CI else "stowplan")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("control_plane") and (advice := binaries.missing()):
        pytest.skip(advice)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a control-plane test that did not run is a failure, whatever the reason: green means it ran."""
    report = yield
    if (
        IN_CI
        and report.skipped
        and item.get_closest_marker("control_plane")
        and not hasattr(report, "wasxfail")
    ):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped although CI is set: {reason}"
    return report


@pytest.fixture
def start_control_plane() -> Iterator[Callable[[Options], ControlPlane]]:
    """Starts control planes of one's own choosing, until the test ends. Needs the `control_plane` marker."""
    with ExitStack() as running:
        yield lambda options: running.enter_context(start(options))


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """An API server whose objects the tests of one module share. Needs the `control_plane` marker."""
    with start() as plane:
        yield plane
