"""The volume controller and a provisioner, as small as tests need them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.control_plane.client import ApiError, Client
from tests.control_plane.plane import ControlPlane
from tests.e2e.stage import BOUND, CLAIMS, HOST, STORAGE, VOLUMES

SELECTED = "volume.kubernetes.io/selected-node"
_PAUSE = 0.02


class VolumeController:
    """Makes a volume for each claim that names a node, and binds claims and volumes that name each other."""

    def __init__(self, api: Client) -> None:
        self.provisioned: dict[str, str] = {}
        """The node for which a volume was made, by claim."""
        self._api = api
        self._stop = threading.Event()
        self._problem: Exception | None = None

    def run(self) -> None:
        while not self._stop.wait(_PAUSE):
            try:
                self._sync()
            except ApiError as problem:
                if problem.status not in (404, 409):  # it was deleted or changed meanwhile
                    self._problem = problem
                    return

    def stop(self) -> None:
        self._stop.set()

    def clear_up(self) -> None:
        """Takes away the volumes that it made, and raises what went wrong, if anything did."""
        for claim in self.provisioned:
            self._api.delete(f"{VOLUMES}/made-for-{claim}")
        if self._problem is not None:
            raise self._problem

    def _sync(self) -> None:
        claims = {each["metadata"]["name"]: each for each in self._api.get(CLAIMS)["items"]}
        for claim in claims.values():
            if not claim["spec"].get("volumeName"):
                self._provision(claim)
        for volume in self._api.get(VOLUMES)["items"]:
            wanted = volume["spec"].get("claimRef", {}).get("name", "")
            if wanted in claims and not claims[wanted]["spec"].get("volumeName"):
                self._bind(wanted, volume["metadata"]["name"])

    def _provision(self, claim: dict[str, Any]) -> None:
        name = claim["metadata"]["name"]
        node = claim["metadata"].get("annotations", {}).get(SELECTED, "")
        kind = claim["spec"].get("storageClassName", "")
        if not node or name in self.provisioned:
            return
        if self._api.get(f"{STORAGE}/storageclasses/{kind}")["provisioner"] == "kubernetes.io/no-provisioner":
            return
        volume = volume_on(f"made-for-{name}", kind, node)
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": "default",
            "name": name,
        }
        volume["spec"]["claimRef"] = reference | {"uid": claim["metadata"]["uid"]}
        self.provisioned[name] = node
        self._api.create(VOLUMES, volume)

    def _bind(self, claim: str, volume: str) -> None:
        done = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume}}
        self._api.patch(f"{CLAIMS}/{claim}", done)
        self._api.patch(f"{CLAIMS}/{claim}/status", {"status": {"phase": "Bound"}})


def volume_on(name: str, storage_class: str, node: str, size: str = "10Gi") -> dict[str, Any]:
    """A volume that can be used on that node only."""
    rule = {"key": HOST, "operator": "In", "values": [node]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
        },
    }


@contextmanager
def volume_controller(plane: ControlPlane) -> Iterator[VolumeController]:
    with plane.client() as api:
        controller = VolumeController(api)
        thread = threading.Thread(target=controller.run)
        thread.start()
        try:
            yield controller
        finally:
            controller.stop()
            thread.join()
            controller.clear_up()
