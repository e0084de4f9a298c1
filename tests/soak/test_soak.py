"""The short run: every kind of fault that hurts most, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.control_plane.plane import ControlPlane, Options
from tests.soak.soak import Settings, soak

pytestmark = pytest.mark.control_plane


def test_nothing_is_lost_and_nothing_happens_twice(
    start_control_plane: Callable[[Options], ControlPlane], tmp_path: Path
) -> None:
    settings = Settings(pods=1500, nodes=60, faults=9)
    report = asyncio.run(soak(start_control_plane(Options()), settings, tmp_path))
    assert report.good, "\n".join([*(fault.line() for fault in report.faults), *report.problems])
