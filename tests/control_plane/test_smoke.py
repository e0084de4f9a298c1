"""The test bench itself, against the real API server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.control_plane import binaries
from tests.control_plane.client import ApiError
from tests.control_plane.plane import ControlPlane, Options, StartError, start

pytestmark = pytest.mark.control_plane

ROOT = Path(__file__).parents[2]
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
HOLDER = """
import json, signal
from tests.control_plane.plane import start
plane = start()
print(json.dumps({"pids": plane.pids, "folder": str(plane.folder)}), flush=True)
signal.pause()
"""


def node(name: str) -> dict[str, object]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}}


def pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def gone(pids: dict[str, int], folder: Path) -> bool:
    return not folder.exists() and not any(running(pid) for pid in pids.values())


def test_a_pod_is_bound_through_the_api(control_plane: ControlPlane) -> None:
    with control_plane.client() as client:
        client.create(NODES, node("first"))
        client.create(PODS, pod("web"))
        client.bind("default", "web", "first")
        bound = client.get(f"{PODS}/web")
        assert bound["spec"]["nodeName"] == "first"
        scheduled = [each for each in bound["status"]["conditions"] if each["type"] == "PodScheduled"]
        assert scheduled[0]["status"] == "True"
        with pytest.raises(ApiError, match="already assigned to node") as refused:
            client.bind("default", "web", "first")
        assert refused.value.status == 409


def test_versions_are_stamped_into_the_binaries(control_plane: ControlPlane) -> None:
    with control_plane.client() as client:
        served = client.get("/version")["gitVersion"]
    program = f"{binaries.folder()}/kubectl"
    kubectl = [program, f"--kubeconfig={control_plane.kubeconfig}", "version", "--output=json"]
    said = json.loads(subprocess.run(kubectl, check=True, capture_output=True, text=True).stdout)
    assert served.startswith("v1.36.")
    assert said["serverVersion"]["gitVersion"] == said["clientVersion"]["gitVersion"] == served


def test_authorisation_is_on(control_plane: ControlPlane) -> None:
    with control_plane.client() as admin:
        account = {"metadata": {"name": "nobody"}}
        admin.create("/api/v1/namespaces/default/serviceaccounts", account)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = "/api/v1/namespaces/default/serviceaccounts/nobody/token"
        token = admin.create(path, request)["status"]["token"]
    with control_plane.client(token) as nobody, pytest.raises(ApiError, match="cannot list") as refused:
        nobody.get(NODES)
    assert refused.value.status == 403
    with control_plane.client("wrong") as stranger, pytest.raises(ApiError) as unknown:
        stranger.get(NODES)
    assert unknown.value.status == 401


def test_admission_is_chosen_by_the_test(start_control_plane: Callable[[Options], ControlPlane]) -> None:
    chosen = Options(service_account_admission=True, taint_nodes_by_condition=True, priority_admission=False)
    with start_control_plane(chosen).client() as client:
        made = client.create(NODES, node("tainted"))
        assert [taint["key"] for taint in made["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
        with pytest.raises(ApiError, match="serviceaccount"):
            client.create(PODS, pod("no-account"))
        client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        important = pod("important")
        important["spec"]["priority"] = 1000  # type: ignore[index]
        assert client.create(PODS, important)["spec"]["priority"] == 1000


def test_by_default_nodes_are_untainted_and_pods_need_no_account(control_plane: ControlPlane) -> None:
    with control_plane.client() as client:
        assert "taints" not in client.create(NODES, node("plain"))["spec"]
        assert client.create(PODS, pod("plain"))["spec"]["priority"] == 0
        client.delete(f"{PODS}/plain?gracePeriodSeconds=0")
        client.delete(f"{NODES}/plain")


def test_stopping_leaves_nothing_behind() -> None:
    with start() as plane:
        assert plane.kubeconfig.exists()
        assert all(running(pid) for pid in plane.pids.values())
    assert gone(plane.pids, plane.folder)


def test_a_killed_test_leaves_nothing_behind() -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert holder.stdout
        held = json.loads(holder.stdout.readline())
        folder = Path(held["folder"])
        assert folder.exists()
        assert all(running(pid) for pid in held["pids"].values())
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert wait_until(lambda: gone(held["pids"], folder))


def test_a_killed_supervisor_takes_the_servers_with_it() -> None:
    with start() as plane:
        servers = [plane.pids["etcd"], plane.pids["kube-apiserver"]]
        plane._supervisor.kill()
        assert wait_until(lambda: not any(running(pid) for pid in servers))
    assert wait_until(lambda: gone(plane.pids, plane.folder))


def test_a_server_that_cannot_start_says_why_and_takes_etcd_with_it() -> None:
    etcds_before = etcd_pids()
    with pytest.raises(StartError, match=r"(?s)kube-apiserver ended with code.*no-such-flag"):
        start(Options(apiserver_arguments=("--no-such-flag",)))
    assert etcd_pids() <= etcds_before


def etcd_pids() -> set[int]:
    """Processes of our etcd binary that still run."""
    program = str(binaries.folder() / "etcd")
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
            except OSError:
                continue
            if command == program and running(int(entry.name)):
                found.add(int(entry.name))
    return found
