"""A cluster without some kinds of object, and a scheduler that may not read some others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control_plane.client import Client
from tests.control_plane.plane import ControlPlane, Options, start
from tests.e2e.test_run import NODES, PODS, eventually, node, node_of, pod, scheduler

pytestmark = pytest.mark.control_plane

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
STORAGE = ("storageclasses", "csidrivers", "csistoragecapacities", "volumeattachments")


def allow(api: Client, name: str, *rules: tuple[str, tuple[str, ...]]) -> None:
    """Lets the scheduler's account do anything with some resources of some groups."""
    may: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": list(resources), "verbs": ["*"]} for group, resources in rules
    ]
    api.create(ROLES, {"metadata": {"name": name}, "rules": may})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    account = {"kind": "ServiceAccount", "name": "limited", "namespace": "default"}
    api.create(BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [account]})


def kubeconfig_of_account(plane: ControlPlane, api: Client, folder: Path) -> Path:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "limited"}})
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    content = yaml.safe_load(plane.kubeconfig.read_text())
    token = api.create(f"{accounts}/limited/token", wish)["status"]["token"]
    content["users"] = [{"name": "admin", "user": {"token": token}}]
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return file


def test_what_cannot_be_read_is_said_once_and_disables_no_more_than_what_needs_it(tmp_path: Path) -> None:
    without_devices = Options(runtime_config={"resource.k8s.io/v1": False})
    with start(without_devices) as plane, plane.client() as api:
        everything = ("*",)
        allow(
            api,
            "most",
            *((group, everything) for group in ("", "apps", "policy", "events.k8s.io", "resource.k8s.io")),
            ("storage.k8s.io", STORAGE),
        )
        account = kubeconfig_of_account(plane, api, tmp_path)
        api.create(NODES, node("one"))
        log = tmp_path / "log"
        with scheduler(plane, log, f"--kubeconfig={account}", "--leader-elect=false") as running:
            api.create(PODS, pod("before"))
            assert eventually(lambda: node_of(api, "before")) == "one"
            said = [line for line in log.read_text().splitlines() if "cannot be read" in line]
            for kind in ("resourceclaims", "resourceslices", "deviceclasses", "csinodes"):
                (line,) = [line for line in said if f"{kind} cannot be read" in line]
                assert ("VolumeBinding" if kind == "csinodes" else "DynamicResources") in line
            assert len(said) == 4

            allow(api, "the rest", ("storage.k8s.io", ("csinodes",)))
            eventually(lambda: "csinodes can be read now" in log.read_text())
            api.create(PODS, pod("after"))
            assert eventually(lambda: node_of(api, "after")) == "one"
            assert log.read_text().count("cannot be read") == 4
            assert running.process.poll() is None
