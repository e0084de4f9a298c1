"""The `control_plane` marker: without binaries a test is skipped, and in CI that is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SMOKE = "tests/control_plane/test_smoke.py::test_a_pod_is_bound_through_the_api"


def run_smoke_test(no_binaries: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in {"CI", "PYTEST_ADDOPTS"}}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", SMOKE],
        env={**clean, "KUBEBUILDER_ASSETS": str(no_binaries), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_binaries_it_is_skipped_with_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    ended = run_smoke_test(tmp_path)
    assert ended.returncode == 0
    advice = [line for line in ended.stdout.splitlines() if "make control-plane" in line]
    assert len(advice) == 1
    assert advice[0].startswith("SKIPPED")
    assert "1 skipped" in ended.stdout


def test_in_ci_a_skip_is_a_failure(tmp_path: Path) -> None:
    ended = run_smoke_test(tmp_path, CI="true")
    assert ended.returncode == 1
    assert "skipped although CI is set" in ended.stdout
    assert "skipped" not in ended.stdout.splitlines()[-1]
