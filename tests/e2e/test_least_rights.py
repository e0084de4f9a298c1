"""The second scheduler at work with the rights that deploy/ gives it: they suffice, and each is used."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
import yaml

from tests.control_plane import binaries
from tests.control_plane.client import Client
from tests.control_plane.plane import ControlPlane, Options, start

pytestmark = pytest.mark.control_plane

BASE = Path(__file__).parents[2] / "deploy" / "second-scheduler"
USER = "system:serviceaccount:kube-system:stowplan"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
RESOURCE = "/apis/resource.k8s.io/v1"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}

RARE = {
    ("get", "pods", ""),  # when nobody knows what became of a binding
    ("delete", "resourceclaims", "resource.k8s.io"),  # when a pod with a claim of ours cannot be bound
    ("patch", "events", "events.k8s.io"),  # when the same happens again, much later
    ("patch", "resourceclaims/binding", "resource.k8s.io"),  # no request: asked for behind another one
}
"""What is allowed and does not happen within some seconds."""


Scenario: TypeAlias = Callable[[Client, int], None]


class Use(NamedTuple):
    verb: str
    resource: str
    group: str


class Audited(NamedTuple):
    """A control plane that writes down what the scheduler's account does."""

    plane: ControlPlane
    log: Path

    def requests(self) -> Iterator[dict[str, Any]]:
        for line in self.log.read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] == USER and "responseStatus" in event:
                yield event

    def uses(self) -> set[Use]:
        found = set()
        for event in self.requests():
            target = event.get("objectRef", {})
            parts = (target.get("resource", ""), target.get("subresource", ""))
            found.add(Use(event["verb"], "/".join(filter(None, parts)), target.get("apiGroup", "")))
        return found

    def refused(self) -> list[str]:
        return [
            f"{event['verb']} {event['requestURI']}"
            for event in self.requests()
            if event["responseStatus"].get("code") in (401, 403)
        ]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audit")
    rules = [{"level": "Metadata", "users": [USER]}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    log = folder / "audit.log"
    log.touch()
    arguments = (f"--audit-policy-file={folder / 'policy.yaml'}", f"--audit-log-path={log}")
    with start(Options(apiserver_arguments=arguments)) as plane:
        kubectl = [f"{binaries.folder()}/kubectl", f"--kubeconfig={plane.kubeconfig}"]
        subprocess.run([*kubectl, "apply", "--server-side", "-k", str(BASE)], check=True, capture_output=True)
        yield Audited(plane, log)


@pytest.fixture(scope="module")
def admin(audited: Audited) -> Iterator[Client]:
    with audited.plane.client() as client:
        for name in ("one", "two"):
            room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
            labels = {"kubernetes.io/hostname": name}
            status = {"allocatable": room, "capacity": room}
            client.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        yield client


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def port(audited: Audited, admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The second scheduler, as its pod would run; yields the port of its pages."""
    folder = tmp_path_factory.mktemp("scheduler")
    account = "/api/v1/namespaces/kube-system/serviceaccounts/stowplan/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    kubeconfig = json.loads(audited.plane.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"token": admin.create(account, request)["status"]["token"]}
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    config = yaml.safe_load((BASE / "config.yaml").read_text())
    config["clientConnection"] = {"kubeconfig": str(folder / "kubeconfig")}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [sys.executable, "-m", "stowplan", "run", f"--config={folder / 'config.yaml'}"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    command += [
        f"--{what}-kubeconfig={folder / 'kubeconfig'}" for what in ("authentication", "authorization")
    ]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, "HOME": "/nowhere"}
        )
    try:
        wait_for(lambda: process.poll() is not None or ready(port), "a scheduler that is ready")
        assert process.poll() is None, log.read_text()
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)
        print(log.read_text())


def page(port: int, path: str, token: str = "") -> str:
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # it made its certificate itself
    with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
        text: bytes = answer.read()
        return text.decode()


def ready(port: int) -> bool:
    try:
        return page(port, "/readyz") == "ok"
    except OSError:
        return False


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def create_pod(admin: Client, name: str, *, requests: dict[str, str] | None = None, **spec: Any) -> None:
    container = {"name": "main", "image": "pause", "resources": {"requests": requests or {}}}
    if limits := {key: value for key, value in (requests or {}).items() if "/" in key}:
        container["resources"]["limits"] = limits  # type: ignore[index]
    pod = {
        "metadata": {"name": name},
        "spec": {"schedulerName": "stowplan", "containers": [container], **spec},
    }
    admin.create(PODS, pod)


def node_of(admin: Client, name: str) -> str:
    node: str = admin.get(f"{PODS}/{name}")["spec"].get("nodeName", "")
    return node


def placed(admin: Client, name: str) -> None:
    wait_for(lambda: node_of(admin, name), f"a node for {name}")


def claim_volume(admin: Client, name: str, storage_class: str) -> list[dict[str, Any]]:
    """Makes a claim, and returns the volumes of a pod with it."""
    claim = {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    admin.create(CLAIMS, claim)
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def volume(name: str, storage_class: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "hostPath": {"path": "/data"},
        },
    }


def bind_claim(admin: Client, claim: str, volume_name: str) -> None:
    """What the volume controller does when it sees a volume that names a claim."""
    done = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume_name}}
    admin.patch(f"{CLAIMS}/{claim}", done)
    admin.patch(f"{CLAIMS}/{claim}/status", {"status": {"phase": "Bound"}})


def create_class(admin: Client, name: str, provisioner: str) -> None:
    storage_class = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    admin.create("/apis/storage.k8s.io/v1/storageclasses", storage_class)


def a_pod_is_placed(admin: Client, port: int) -> None:
    create_pod(admin, "plain")
    placed(admin, "plain")


def a_pod_that_fits_nowhere_is_told_so(admin: Client, port: int) -> None:
    create_pod(admin, "giant", requests={"cpu": "64"})

    def conditions() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = admin.get(f"{PODS}/giant")["status"].get("conditions", [])
        return [each for each in found if each.get("reason") == "Unschedulable"]

    wait_for(conditions, "a condition")
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    wait_for(
        lambda: any(each["regarding"]["name"] == "giant" for each in admin.get(events)["items"]), "an event"
    )
    admin.delete(f"{PODS}/giant?gracePeriodSeconds=0")


def a_pod_makes_room_for_itself(admin: Client, port: int) -> None:
    for name in ("one", "two"):
        create_pod(admin, f"low-{name}", requests={"cpu": "3"})
        placed(admin, f"low-{name}")
    important = {"metadata": {"name": "important"}, "value": 1000}
    admin.create("/apis/scheduling.k8s.io/v1/priorityclasses", important)
    create_pod(admin, "high", requests={"cpu": "2"}, priorityClassName="important")

    def victim() -> str:
        found = (f"low-{name}" for name in ("one", "two"))
        return next(
            (name for name in found if "deletionTimestamp" in admin.get(f"{PODS}/{name}")["metadata"]), ""
        )

    wait_for(victim, "a victim")
    admin.delete(f"{PODS}/{victim()}?gracePeriodSeconds=0")  # as its kubelet would
    placed(admin, "high")


def a_pod_gets_a_volume_that_exists(admin: Client, port: int) -> None:
    create_class(admin, "static", "kubernetes.io/no-provisioner")
    admin.create("/api/v1/persistentvolumes", volume("there", "static"))
    admin.patch("/api/v1/persistentvolumes/there/status", {"status": {"phase": "Available"}})
    create_pod(admin, "static", volumes=claim_volume(admin, "static", "static"))

    def named() -> bool:
        return "claimRef" in admin.get("/api/v1/persistentvolumes/there")["spec"]

    wait_for(named, "a volume that names its claim")
    bind_claim(admin, "static", "there")
    placed(admin, "static")


def a_pod_gets_a_volume_made_for_it(admin: Client, port: int) -> None:
    create_class(admin, "dynamic", "example.com/maker")
    create_pod(admin, "dynamic", volumes=claim_volume(admin, "dynamic", "dynamic"))

    def selected() -> str:
        annotations = admin.get(f"{CLAIMS}/dynamic")["metadata"].get("annotations", {})
        node: str = annotations.get("volume.kubernetes.io/selected-node", "")
        return node

    wait_for(selected, "a claim that names its node")
    made = volume("made", "dynamic")
    made["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "dynamic",
        "uid": admin.get(f"{CLAIMS}/dynamic")["metadata"]["uid"],
    }
    admin.create("/api/v1/persistentvolumes", made)
    bind_claim(admin, "dynamic", "made")
    placed(admin, "dynamic")


def pods_get_devices(admin: Client, port: int) -> None:
    gpus = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    admin.create(f"{RESOURCE}/deviceclasses", gpus)
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "one",
        "pool": {"name": "one", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    }
    admin.create(f"{RESOURCE}/resourceslices", {"metadata": {"name": "one"}, "spec": spec})
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}
    admin.create(f"{RESOURCE}/namespaces/default/resourceclaims", claim)
    create_pod(admin, "claims", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    placed(admin, "claims")
    create_pod(admin, "asks", requests={"example.com/gpu": "1"})
    placed(admin, "asks")
    assert node_of(admin, "claims") == node_of(admin, "asks") == "one"


def metrics_are_for_those_who_may_see_them(admin: Client, port: int) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    admin.create(accounts, {"metadata": {"name": "prometheus"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = admin.create(f"{accounts}/prometheus/token", request)["status"]["token"]
    for wrong in (token, "nobody's token"):
        with pytest.raises(OSError, match=r"40[13]"):
            page(port, "/metrics/resources", wrong)
    rules = [{"nonResourceURLs": ["/metrics", "/metrics/resources"], "verbs": ["get"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    admin.create(f"{rbac}/clusterroles", {"metadata": {"name": "scheduler-metrics"}, "rules": rules})
    binding = {
        "metadata": {"name": "prometheus"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "scheduler-metrics",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
    }
    admin.create(f"{rbac}/clusterrolebindings", binding)
    wait_for(
        lambda: "scheduler_schedule_attempts_total" in page(port, "/metrics", token),
        "rights that have arrived",
    )
    assert page(port, "/healthz") == "ok"


SCENARIOS = (
    a_pod_is_placed,
    a_pod_that_fits_nowhere_is_told_so,
    a_pod_makes_room_for_itself,
    a_pod_gets_a_volume_that_exists,
    a_pod_gets_a_volume_made_for_it,
    pods_get_devices,
    metrics_are_for_those_who_may_see_them,
)


@pytest.fixture(scope="module")
def played() -> set[Scenario]:
    """The scenarios that were played: each can be played once."""
    return set()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_its_rights_suffice(
    audited: Audited, admin: Client, port: int, played: set[Scenario], scenario: Scenario
) -> None:
    played.add(scenario)
    scenario(admin, port)
    assert audited.refused() == []


def test_each_right_is_used(audited: Audited, admin: Client, port: int, played: set[Scenario]) -> None:
    """What none of the scenarios makes it do, it need not be allowed."""
    for scenario in SCENARIOS:
        if scenario not in played:
            scenario(admin, port)
    role = admin.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/stowplan")
    granted = {
        Use(verb, resource, group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted - audited.uses() == RARE
