"""`stowplan run` as a process, against a real API server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.client import Client
from tests.control_plane.plane import ControlPlane

pytestmark = pytest.mark.control_plane

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}}


def pod(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def eventually(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """What the condition gives, as soon as that is something."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Running:
    """A scheduler process."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    def get(self, path: str, token: str = "", method: str = "GET", body: str = "") -> tuple[int, str]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=20)


STOWPLAN = (sys.executable, "-m", "stowplan", "run")


@contextmanager
def scheduler(
    plane: ControlPlane, log: Path, *flags: str, ready: bool = True, program: tuple[str, ...] = STOWPLAN
) -> Iterator[Running]:
    port = free_port()
    command = [*program, f"--kubeconfig={plane.kubeconfig}", "-v=2"]
    command += [f"--secure-port={port}", "--bind-address=127.0.0.1"]
    command += [f"--authentication-kubeconfig={plane.kubeconfig}"]
    command += [f"--authorization-kubeconfig={plane.kubeconfig}", *flags]
    with log.open("w") as output:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, text=True, env=environment
        )
        running = Running(process, port, log)
        try:
            if ready:
                eventually(running.is_ready)
            yield running
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def api(control_plane: ControlPlane) -> Iterator[Client]:
    with control_plane.client() as client:
        yield client


def node_of(api: Client, name: str) -> str:
    found: str = api.get(f"{PODS}/{name}")["spec"].get("nodeName", "")
    return found


def events_of(api: Client, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get(EVENTS)["items"]
    return [event for event in items if event["regarding"]["name"] == name]


def test_pods_are_bound_and_it_ends_in_order(
    control_plane: ControlPlane, api: Client, tmp_path: Path
) -> None:
    for number in range(3):
        api.create(NODES, node(f"n{number}"))
    with scheduler(control_plane, tmp_path / "log") as running:
        for number in range(20):
            api.create(PODS, pod(f"p{number}"))
        names = {eventually(partial(node_of, api, f"p{n}")) for n in range(20)}
        assert names == {"n0", "n1", "n2"}

        event = eventually(lambda: events_of(api, "p0"))[0]
        assert event["reason"] == "Scheduled"
        assert event["action"] == "Binding"
        assert event["note"] == f"Successfully assigned default/p0 to {node_of(api, 'p0')}"
        assert event["reportingController"] == "default-scheduler"

        api.create(PODS, pod("large", cpu="64"))

        def why() -> Any:
            conditions = api.get(f"{PODS}/large")["status"].get("conditions", [])
            return [each for each in conditions if each["type"] == "PodScheduled" and each.get("message")]

        condition = eventually(why)[0]
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
        assert eventually(lambda: events_of(api, "large"))[0]["reason"] == "FailedScheduling"

        api.create(NODES, node("roomy", cpu="128"))
        assert eventually(lambda: node_of(api, "large")) == "roomy"

        assert running.end() == 0
    lease = api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
    assert lease["spec"].get("holderIdentity", "") == ""


def test_pages_are_for_those_who_may_see_them(
    control_plane: ControlPlane, api: Client, tmp_path: Path
) -> None:
    with scheduler(control_plane, tmp_path / "log", "--leader-elect=false") as running:
        token = control_plane.token
        for path in ("/healthz", "/livez", "/readyz"):
            assert running.get(path) == (200, "ok")
        status, text = running.get("/readyz?verbose")
        assert status == 200
        assert "[+]sched-handler-sync ok" in text

        status, text = running.get("/metrics")
        assert status == 403
        message = 'forbidden: User "system:anonymous" cannot get path "/metrics"'
        assert json.loads(text)["message"] == message
        assert running.get("/metrics", "wrong")[0] == 401

        api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "nobody"}})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = api.create("/api/v1/namespaces/default/serviceaccounts/nobody/token", request)
        status, text = running.get("/metrics", answer["status"]["token"])
        assert status == 403
        assert 'User "system:serviceaccount:default:nobody" cannot get path' in json.loads(text)["message"]

        status, text = running.get("/metrics", token)
        assert status == 200
        assert 'scheduler_pending_pods{queue="active"}' in text
        assert 'rest_client_requests_total{code="200"' in text
        status, text = running.get("/configz", token)
        assert json.loads(text)["componentconfig"]["kind"] == "KubeSchedulerConfiguration"
        status, text = running.get("/debug/flags/v", token, "PUT", "4")
        assert (status, text) == (200, "successfully set klog.logging.verbosity to 4\n")
        assert running.get("/nothing/here", token)[0] == 404
        log = running.log.read_text()
        assert token not in log
        assert answer["status"]["token"] not in log
        assert running.end() == 1, "as upstream: without leader election there is no good end"


def test_a_second_one_takes_over(control_plane: ControlPlane, api: Client, tmp_path: Path) -> None:
    with scheduler(control_plane, tmp_path / "first") as first:
        eventually(lambda: "leading" in first.log.read_text())
        with scheduler(control_plane, tmp_path / "second") as second:
            assert first.end() == 0
            api.create(NODES, node("later"))
            api.create(PODS, pod("after"))
            assert eventually(lambda: node_of(api, "after"))
            first.process.wait()
            second.process.send_signal(signal.SIGUSR2)
            eventually(lambda: "cache comparer finished" in second.log.read_text())
            assert '"dump of a node" node="later"' in second.log.read_text()
            assert second.end(signal.SIGINT) == 0


def test_who_loses_the_lease_ends_at_once(control_plane: ControlPlane, api: Client, tmp_path: Path) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/stolen"
    with scheduler(control_plane, tmp_path / "log", "--leader-elect-resource-name=stolen") as running:
        eventually(lambda: "leading" in running.log.read_text())
        api.patch(lease, {"spec": {"holderIdentity": "a-thief", "leaseDurationSeconds": 600}})
        assert running.process.wait(timeout=20) == 1
        assert "Leaderelection lost" in running.log.read_text()
    assert api.get(lease)["spec"]["holderIdentity"] == "a-thief", "it is not ours to hand over"


def test_one_that_waits_for_the_lease_ends_well(
    control_plane: ControlPlane, api: Client, tmp_path: Path
) -> None:
    flag = "--leader-elect-resource-name=taken"
    with scheduler(control_plane, tmp_path / "first", flag) as first:
        eventually(lambda: "leading" in first.log.read_text())
        with scheduler(control_plane, tmp_path / "second", flag, "--profiling=false") as second:
            status, text = second.get("/metrics/resources", control_plane.token)
            assert (status, text) == (200, ""), "only the one that leads has numbers"
            status, text = second.get("/debug/flags/v", control_plane.token, "PUT", "4")
            assert status == 404, "there is no page that changes anything without profiling"
            assert second.end() == 0
        assert first.end() == 0
