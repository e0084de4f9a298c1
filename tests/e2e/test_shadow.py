"""kube-scheduler binds; stowplan, which writes nothing, decides the same pods from the same state."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane import binaries
from tests.control_plane.client import Client
from tests.control_plane.plane import ControlPlane
from tests.e2e.test_run import NODES, PODS, eventually

pytestmark = pytest.mark.control_plane

NODE_COUNT = 120
POD_COUNT = int(os.environ.get("STOWPLAN_SHADOW_PODS", "2000"))

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
parallelism: 2
leaderElection: {leaderElect: false}
clientConnection: {qps: 2000, burst: 2000}
"""


def node(number: int, random_: random.Random) -> dict[str, Any]:
    name = f"n{number:03}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"z{number % 4}",
        "disk": random_.choice(["ssd", "hdd"]),
    }
    room = {
        "cpu": random_.choice(["8", "16", "32"]),
        "memory": random_.choice(["32Gi", "64Gi"]),
        "pods": "40",
    }
    taints = [{"key": "gpu", "effect": random_.choice(["NoSchedule", "PreferNoSchedule"])}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints if number % 10 == 0 else []},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(number: int, random_: random.Random) -> dict[str, Any]:
    app = f"app-{random_.randrange(12)}"
    requests = {
        "cpu": f"{random_.choice([50, 100, 250, 500])}m",
        "memory": f"{random_.choice([64, 128, 512])}Mi",
    }
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "pause", "resources": {"requests": requests}}]
    }
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    match random_.randrange(9):
        case 0:
            spread = {"maxSkew": 2, "topologyKey": zone, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [spread | selector]
        case 1:
            spread = {"maxSkew": 1, "topologyKey": host, "whenUnsatisfiable": "ScheduleAnyway"}
            spec["topologySpreadConstraints"] = [spread | selector]
        case 2:
            required = [{"topologyKey": host, **selector}]
            spec["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            }
        case 3:
            term = {"weight": 20, "podAffinityTerm": {"topologyKey": zone, **selector}}
            spec["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        case 4:
            spec["nodeSelector"] = {"disk": "ssd"}
        case 5:
            match_ = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}
            preferred = [{"weight": 5, "preference": match_}]
            spec["affinity"] = {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
            }
        case 6:
            spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
        case 7:
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8000 + random_.randrange(20)}]
    return {"metadata": {"name": f"p{number:05}", "labels": {"app": app}}, "spec": spec}


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def test_no_pod_is_decided_differently(control_plane: ControlPlane, tmp_path: Path) -> None:
    random_ = random.Random(7)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    with control_plane.client() as api:
        for number in range(NODE_COUNT):
            api.create(NODES, node(number, random_))
        shadow_log, upstream_log = tmp_path / "shadow.log", tmp_path / "upstream.log"
        configured = tmp_path / "configured.yaml"
        configured.write_text(
            CONFIG.replace("qps: 2000", f'kubeconfig: "{control_plane.kubeconfig}", qps: 2000')
        )
        upstream = [str(binaries.folder() / "kube-scheduler"), f"--config={configured}", "--secure-port=0"]
        ours = [
            sys.executable,
            "-m",
            "stowplan",
            "run",
            "--shadow",
            f"--config={configured}",
            "--secure-port=0",
        ]
        with running(ours, shadow_log) as shadow:
            eventually(lambda: "Shadowing" in shadow_log.read_text())
            with running(upstream, upstream_log):
                api.create(PODS, pod(0, random_))
                # What is there before kube-scheduler is, it takes in an order of its own.
                eventually(lambda: all_bound(api, 1), 60)
                for number in range(1, POD_COUNT):
                    api.create(PODS, pod(number, random_))
                eventually(lambda: all_bound(api, POD_COUNT), 180)
            shadow.send_signal(signal.SIGTERM)
            assert shadow.wait(timeout=20) == 0
        text = shadow_log.read_text()
    found = re.search(r"Shadow ends.*placed=(\d+).*differences=(\d+).*unseen=(\d+)", text)
    assert found is not None, text[-2000:]
    differences = "\n".join(line[:600] for line in text.splitlines() if "they say" in line)
    assert found.groups() == (str(POD_COUNT), "0", "0"), differences[:6000]


def all_bound(api: Client, count: int) -> bool:
    pods = api.get(f"{PODS}?limit=5000")["items"]
    return len(pods) == count and all(each["spec"].get("nodeName") for each in pods)
