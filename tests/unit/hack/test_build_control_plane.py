"""hack/control-plane/build.sh, as far as it can be seen without building."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "hack" / "control-plane" / "build.sh"
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kubectl")


@pytest.fixture(autouse=True)
def path_without_go(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the script itself calls: whatever goes wrong here, nothing gets built."""
    tools = tmp_path_factory.mktemp("tools")
    for tool in ("bash", "awk", "dirname"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(tools))


def build(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}
    return subprocess.run([SCRIPT, *words], env=clean, capture_output=True, text=True, check=False)


def put_programs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)


def where(**environment: str) -> Path:
    return Path(build("--where", **environment).stdout.strip())


def test_the_folder_lies_in_the_cache_and_carries_the_pinned_versions(tmp_path: Path) -> None:
    in_home = where(HOME=str(tmp_path))
    assert in_home.parent == tmp_path / ".cache" / "stowplan" / "control-plane"
    assert in_home.name.startswith("kubernetes-v1.36.")
    assert "-etcd-v3." in in_home.name
    in_cache = where(HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "elsewhere"))
    assert in_cache == tmp_path / "elsewhere" / "stowplan" / "control-plane" / in_home.name


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    folder = where(HOME=str(tmp_path))
    put_programs(folder)
    again = build(HOME=str(tmp_path))
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{folder}\n", "")


def test_without_go_it_says_what_to_install_and_leaves_no_half_build(tmp_path: Path) -> None:
    failed = build(HOME=str(tmp_path))
    assert failed.returncode == 1
    assert "needs Go 1." in failed.stderr
    assert "https://go.dev/dl/" in failed.stderr
    assert list(tmp_path.rglob("kube*")) == []


def test_binaries_of_ones_own_are_used(tmp_path: Path) -> None:
    put_programs(tmp_path)
    assert where(KUBEBUILDER_ASSETS=str(tmp_path)) == tmp_path
    assert build(KUBEBUILDER_ASSETS=str(tmp_path)).returncode == 0


def test_binaries_of_ones_own_that_lack_one_are_refused_by_name(tmp_path: Path) -> None:
    put_programs(tmp_path)
    (tmp_path / "kubectl").unlink()
    failed = build(KUBEBUILDER_ASSETS=str(tmp_path))
    assert failed.returncode == 1
    assert f"KUBEBUILDER_ASSETS={tmp_path} lacks: kubectl." in failed.stderr
