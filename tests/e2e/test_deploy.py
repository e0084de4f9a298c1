"""deploy/ on a real API server: everything is accepted, and the account may do just what is needed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from stowplan.cli.main import main
from tests.control_plane import binaries
from tests.control_plane.client import ApiError, Client
from tests.control_plane.plane import ControlPlane

pytestmark = pytest.mark.control_plane

DEPLOY = Path(__file__).parents[2] / "deploy"
BASES = ("second-scheduler", "default-scheduler")
ACCOUNTS = {"second-scheduler": "stowplan", "default-scheduler": "stowplan-default"}
LEASES = {"second-scheduler": "stowplan", "default-scheduler": "kube-scheduler"}
SYSTEM = "/api/v1/namespaces/kube-system"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

WATCH = {"list", "watch"}
NEEDED = {
    "nodes": WATCH,
    "pods": {"get", "delete"} | WATCH,
    "pods/binding": {"create"},
    "pods/status": {"patch"},
    "events.events.k8s.io": {"create", "patch"},
    "namespaces": WATCH,
    "services": WATCH,
    "replicationcontrollers": WATCH,
    "replicasets.apps": WATCH,
    "statefulsets.apps": WATCH,
    "poddisruptionbudgets.policy": WATCH,
    "persistentvolumes": {"patch"} | WATCH,
    "persistentvolumeclaims": {"patch"} | WATCH,
    "storageclasses.storage.k8s.io": WATCH,
    "csinodes.storage.k8s.io": WATCH,
    "csidrivers.storage.k8s.io": WATCH,
    "csistoragecapacities.storage.k8s.io": WATCH,
    "volumeattachments.storage.k8s.io": WATCH,
    "resourceclaims.resource.k8s.io": {"create", "delete", "patch"} | WATCH,
    "resourceclaims/status.resource.k8s.io": {"patch"},
    "resourceslices.resource.k8s.io": WATCH,
    "deviceclasses.resource.k8s.io": WATCH,
    "tokenreviews.authentication.k8s.io": {"create"},
    "subjectaccessreviews.authorization.k8s.io": {"create"},
}
"""What a scheduler with every default plugin does in the whole cluster, and nothing else."""


class Resource(NamedTuple):
    group: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


def kubectl(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    program = f"{binaries.folder()}/kubectl"
    done = subprocess.run(
        [program, f"--kubeconfig={plane.kubeconfig}", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def deployed(control_plane: ControlPlane) -> ControlPlane:
    """A cluster in which both bases are applied, as `kubectl apply -k` does it."""
    for base in BASES:
        kubectl(control_plane, "apply", "--server-side", "--validate=strict", "-k", str(DEPLOY / base))
    return control_plane


@pytest.fixture(scope="module")
def admin(deployed: ControlPlane) -> Iterator[Client]:
    with deployed.client() as client:
        yield client


def built(plane: ControlPlane, base: str) -> dict[str, dict[str, Any]]:
    """The manifests of a base by kind, as far as there is one of a kind."""
    documents = yaml.safe_load_all(kubectl(plane, "kustomize", str(DEPLOY / base)))
    return {document["kind"]: document for document in documents}


def may(admin: Client, account: str, attributes: Mapping[str, str]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:kube-system:{account}",
            "groups": [
                "system:serviceaccounts",
                "system:serviceaccounts:kube-system",
                "system:authenticated",
            ],
            "resourceAttributes": dict(attributes),
        },
    }
    answer = admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def served(admin: Client) -> Iterator[Resource]:
    """Every resource of the API server, in the version that it prefers."""
    versions = {"v1": ""}
    for group in admin.get("/apis")["groups"]:
        versions[group["preferredVersion"]["groupVersion"]] = group["name"]
    for version, name in versions.items():
        root = "/apis/" if name else "/api/"
        for resource in admin.get(root + version)["resources"]:
            yield Resource(name, resource["name"])


@pytest.mark.parametrize("base", BASES)
def test_the_server_accepts_every_manifest_in_a_dry_run(control_plane: ControlPlane, base: str) -> None:
    manifests = kubectl(control_plane, "kustomize", str(DEPLOY / base))
    documents = list(yaml.safe_load_all(manifests))
    said = kubectl(
        control_plane,
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=manifests,
    )
    assert len(said.splitlines()) == len(documents) == 10
    assert all(line.endswith("serverside-applied (server dry run)") for line in said.splitlines())


def test_applying_again_changes_nothing(deployed: ControlPlane) -> None:
    for base in BASES:
        kubectl(deployed, "diff", "--server-side", "-k", str(DEPLOY / base))


@pytest.mark.parametrize("base", BASES)
def test_both_are_there_at_once(admin: Client, base: str) -> None:
    deployment = admin.get(f"/apis/apps/v1/namespaces/kube-system/deployments/{ACCOUNTS[base]}")
    assert deployment["spec"]["replicas"] == 2
    spec = deployment["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == ACCOUNTS[base]
    config = next(volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume)
    data = admin.get(f"{SYSTEM}/configmaps/{config}")["data"]
    assert data == {"config.yaml": (DEPLOY / base / "config.yaml").read_text()}


def test_selectors_tell_the_two_apart(deployed: ControlPlane) -> None:
    for base in BASES:
        made = built(deployed, base)
        labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == base
        assert made["Deployment"]["spec"]["selector"]["matchLabels"] == labels
        assert made["Service"]["spec"]["selector"] == labels
        assert made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
        for constraint in made["Deployment"]["spec"]["template"]["spec"]["topologySpreadConstraints"]:
            assert constraint["labelSelector"]["matchLabels"] == labels


@pytest.mark.parametrize("base", BASES)
def test_pods_keep_the_strictest_security_standard(deployed: ControlPlane, admin: Client, base: str) -> None:
    """The API server itself judges: in a namespace that enforces `restricted`."""
    namespace = f"strict-{base}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    spec = built(deployed, base)["Deployment"]["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/pods"
    admin.create(f"{path}?dryRun=All", pod)
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    del container["securityContext"]["capabilities"]
    with pytest.raises(ApiError, match="restricted") as refused:
        admin.create(f"{path}?dryRun=All", pod)
    assert refused.value.status == 403


@pytest.mark.parametrize("base", BASES)
def test_the_account_may_do_in_the_cluster_just_what_is_needed(admin: Client, base: str) -> None:
    granted: dict[str, set[str]] = {}
    for resource in served(admin):
        name, _, subresource = resource.name.partition("/")
        for verb in VERBS:
            attributes = {
                "group": resource.group,
                "resource": name,
                "subresource": subresource,
                "namespace": "default",
                "verb": verb,
            }
            if may(admin, ACCOUNTS[base], attributes):
                granted.setdefault(resource.full_name, set()).add(verb)
    everybody = {name for name in granted if name.startswith("self")}  # who am I, what may I
    assert {name: verbs for name, verbs in granted.items() if name not in everybody} == NEEDED


@pytest.mark.parametrize("base", BASES)
def test_the_account_may_write_allocations(admin: Client, base: str) -> None:
    """Asked for by the API server behind the scenes: no resource that it serves."""
    attributes = {
        "group": "resource.k8s.io",
        "resource": "resourceclaims",
        "subresource": "binding",
        "verb": "patch",
    }
    assert may(admin, ACCOUNTS[base], attributes)


@pytest.mark.parametrize("base", BASES)
def test_the_account_may_use_one_lease(admin: Client, base: str) -> None:
    leases = {"group": "coordination.k8s.io", "resource": "leases", "namespace": "kube-system"}
    account = ACCOUNTS[base]
    assert may(admin, account, leases | {"verb": "create"})
    for verb in VERBS:
        wanted = verb in ("create", "get", "update")
        assert may(admin, account, leases | {"verb": verb, "name": LEASES[base]}) == wanted, verb
        assert may(admin, account, leases | {"verb": verb, "name": "other"}) == (verb == "create"), verb
    reading = {"resource": "configmaps", "namespace": "kube-system", "verb": "get"}
    assert may(admin, account, reading | {"name": "extension-apiserver-authentication"})
    assert not may(admin, account, reading | {"name": "kubeadm-config"})


@pytest.fixture(scope="module")
def scheduler(deployed: ControlPlane, admin: Client) -> Iterator[Client]:
    """Somebody with the token that a pod of the second scheduler gets."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = admin.create(f"{SYSTEM}/serviceaccounts/stowplan/token", request)
    with deployed.client(answer["status"]["token"]) as client:
        yield client


def test_a_pod_can_be_scheduled_with_its_token(admin: Client, scheduler: Client) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"metadata": {"name": "one"}, "status": {"allocatable": room, "capacity": room}}
    admin.create("/api/v1/nodes", node)
    pods = "/api/v1/namespaces/default/pods"
    pod = {
        "metadata": {"name": "web"},
        "spec": {"schedulerName": "stowplan", "containers": [{"name": "main", "image": "pause"}]},
    }
    admin.create(pods, pod)
    assert [each["metadata"]["name"] for each in scheduler.get("/api/v1/nodes")["items"]] == ["one"]
    scheduler.bind("default", "web", "one")
    assert scheduler.get(f"{pods}/web")["spec"]["nodeName"] == "one"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/v1/nodes/one"),
        ("PATCH", "/api/v1/nodes/one"),
        ("GET", f"{SYSTEM}/secrets"),
        ("GET", f"{SYSTEM}/configmaps"),
        ("POST", "/api/v1/namespaces/default/pods"),
        ("DELETE", "/api/v1/namespaces/default/pods"),
        ("PATCH", "/api/v1/namespaces/default/pods/web"),
        ("POST", f"{SYSTEM}/serviceaccounts/stowplan/token"),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("GET", "/metrics"),
    ],
)
def test_its_token_opens_nothing_else(scheduler: Client, method: str, path: str) -> None:
    body: dict[str, Any] | None = None if method == "GET" else {}
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    with pytest.raises(ApiError) as refused:
        scheduler.call(method, path, body, content_type=kind)
    assert refused.value.status == 403


def test_what_rbac_writes_as_json_is_accepted(
    deployed: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "rbac", "--name", "third", "-o", "json"]) == 0
    made = capsys.readouterr().out
    said = kubectl(deployed, "apply", "--server-side", "--validate=strict", "-f", "-", stdin=made)
    assert len(said.splitlines()) == len(json.loads(made)["items"]) == 5
