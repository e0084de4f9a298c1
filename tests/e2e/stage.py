"""What the tests of live scheduling share: a running scheduler, and short words for what they do to it.

One API server and one `stowplan run` serve all modules that use the `stage` fixture; what a test makes is
taken away when it ends, and the next begins when the scheduler has forgotten it.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.control_plane import binaries
from tests.control_plane.client import ApiError, Client
from tests.control_plane.plane import ControlPlane
from tests.e2e import test_run
from tests.e2e.test_run import EVENTS, NODES, PODS, Running

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
STORAGE = "/apis/storage.k8s.io/v1"
RESOURCE = "/apis/resource.k8s.io/v1"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
PATIENCE = 60.0
"""How long to wait for what must happen. Long, for slow machines; less than the five minutes after which a
pod is tried again in any case."""

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: "KUBECONFIG", qps: 500, burst: 1000}
profiles:
- schedulerName: stowplan
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
- schedulerName: probing
"""

eventually = partial(test_run.eventually, seconds=PATIENCE)


def selected_by(**labels: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}}


def near(key: str, **labels: str) -> dict[str, Any]:
    """The affinity of a pod that must be where pods with these labels are."""
    terms = [{"topologyKey": key, **selected_by(**labels)}]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def apart(key: str, **labels: str) -> dict[str, Any]:
    terms = [{"topologyKey": key, **selected_by(**labels)}]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


class _Pages:
    """What the scheduler serves, over one connection."""

    def __init__(self, port: int, token: str) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
        self._headers = {"Authorization": f"Bearer {token}"}

    def close(self) -> None:
        self._connection.close()

    def call(self, path: str) -> str:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        return text


class Stage:
    """An API server with a running scheduler, as its administrator sees them."""

    def __init__(
        self, plane: ControlPlane, api: Client, running: Running, scheduler: str = "stowplan"
    ) -> None:
        self.plane = plane
        self.api = api
        self.running = running
        self.scheduler = scheduler
        self._pages = _Pages(running.port, plane.token)
        self._made: list[str] = []
        self._probes = 0

    # Making things

    def make(self, collection: str, name: str, **body: Any) -> dict[str, Any]:
        """Creates an object that is gone when the test is over."""
        metadata = {"name": name, **body.pop("metadata", {})}
        made = self.api.create(collection, {"metadata": metadata, **body})
        self._made.append(f"{collection}/{name}")
        return made

    def adopt(self, path: str) -> None:
        """What somebody else made for the test goes with it as well."""
        self._made.append(path)

    def node(
        self,
        name: str,
        *,
        cpu: str = "4",
        labels: dict[str, str] | None = None,
        room: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Creates a node, and returns when the scheduler knows it."""
        known = self.cached("nodes")
        has = {"cpu": cpu, "memory": "8Gi", "pods": "110", **(room or {})}
        self.make(
            NODES,
            name,
            metadata={"labels": {HOST: name, **(labels or {})}},
            spec=spec,
            status={"allocatable": has, "capacity": has},
        )
        eventually(lambda: self.cached("nodes") > known)

    def pod(
        self,
        name: str,
        *,
        cpu: str = "",
        labels: dict[str, str] | None = None,
        requests: dict[str, str] | None = None,
        scheduler: str = "",
        **spec: Any,
    ) -> dict[str, Any]:
        asked = {**({"cpu": cpu} if cpu else {}), **(requests or {})}
        container: dict[str, Any] = {"name": "main", "image": "pause", "resources": {"requests": asked}}
        if limits := {key: value for key, value in asked.items() if "/" in key}:
            container["resources"]["limits"] = limits
        container.update(spec.pop("container", {}))
        spec = {"schedulerName": scheduler or self.scheduler, "terminationGracePeriodSeconds": 30, **spec}
        spec.setdefault("containers", [container])
        return self.make(PODS, name, metadata={"labels": labels or {}}, spec=spec)

    def running_pod(self, name: str, node: str, **pod: Any) -> dict[str, Any]:
        """A pod that somebody else put on that node; the scheduler knows it when this returns."""
        known = self.cached("pods")
        made = self.pod(name, scheduler="somebody-else", nodeName=node, **pod)
        eventually(lambda: self.cached("pods") > known)
        return made

    # Changing things

    def change_pod(self, name: str, **change: Any) -> dict[str, Any]:
        return self.api.patch(f"{PODS}/{name}", change)

    def label_pod(self, name: str, **labels: str) -> None:
        self.change_pod(name, metadata={"labels": labels})

    def change_node(self, name: str, **change: Any) -> dict[str, Any]:
        return self.api.patch(f"{NODES}/{name}", change)

    def grow_node(self, name: str, **room: str) -> None:
        status = {"status": {"allocatable": room, "capacity": room}}
        self.api.patch(f"{NODES}/{name}/status", status)

    def delete(self, path: str) -> None:
        self.api.delete(f"{path}?gracePeriodSeconds=0")
        self._made.remove(path)

    def delete_pod(self, name: str) -> None:
        """The pod is gone at once, as when its kubelet has ended it."""
        self.delete(f"{PODS}/{name}")

    # Looking

    def get_pod(self, name: str) -> dict[str, Any]:
        return self.api.get(f"{PODS}/{name}")

    def node_of(self, name: str) -> str:
        found: str = self.get_pod(name)["spec"].get("nodeName", "")
        return found

    def placed(self, name: str) -> str:
        """The node of the pod, as soon as it has one."""
        try:
            found: str = eventually(lambda: self.node_of(name))
        except AssertionError:
            raise AssertionError(f"{name} has no node: {self.get_pod(name)['status']}") from None
        return found

    def placed_in_all(self, names: list[str], nodes: list[str]) -> None:
        """Returns when the pods are on these nodes, whichever is where; "" stands for none."""
        eventually(lambda: sorted(map(self.node_of, names)) == nodes)

    def condition(self, name: str, type: str = "PodScheduled") -> dict[str, Any]:
        conditions: list[dict[str, Any]] = self.get_pod(name)["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == type), {})

    def refused(self, name: str, because: str, reason: str = "Unschedulable") -> str:
        """The message of the condition of a pod that fits nowhere, as soon as it says that."""

        def said() -> str:
            condition = self.condition(name)
            message: str = condition.get("message", "")
            fits = condition.get("reason") == reason and because in message
            return message if fits else ""

        try:
            found: str = eventually(said)
        except AssertionError:
            raise AssertionError(f"not {because!r} but {self.condition(name)}") from None
        return found

    def refused_in_all(self, count: int) -> None:
        """Returns when that many pods, and no others, wait for something to happen."""

        def parked() -> bool:
            self.settle()
            return self.waiting("unschedulable") == count and not self.waiting("active")

        eventually(parked)

    def events(self, name: str, reason: str) -> list[dict[str, Any]]:
        uid = self.get_pod(name)["metadata"]["uid"]
        wanted = f"regarding.uid={uid},reason={reason}"
        items: list[dict[str, Any]] = self.api.get(f"{EVENTS}?fieldSelector={wanted}")["items"]
        return items

    def kubectl(self, *words: str) -> str:
        program = [f"{binaries.folder()}/kubectl", f"--kubeconfig={self.plane.kubeconfig}"]
        return subprocess.run([*program, *words], check=True, capture_output=True, text=True).stdout

    # What the scheduler says of itself

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name with all these labels."""
        text = self._pages.call("/metrics")
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        total = 0.0
        for found, value in re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE):
            if all(each in found for each in wanted):
                total += float(value)
        return total

    def cached(self, type: str) -> float:
        return self.metric("scheduler_cache_size", type=type)

    def waiting(self, queue: str) -> float:
        return self.metric("scheduler_pending_pods", queue=queue)

    def attempts(self, profile: str = "") -> float:
        return self.metric("scheduler_schedule_attempts_total", profile=profile or self.scheduler)

    def moves(self, since: dict[str, float]) -> dict[str, float]:
        """Which events brought pods to another place in the queue, and how often since then."""
        text = self._pages.call("/metrics")
        found = re.findall(r"^scheduler_queue_incoming_pods_total(\{.*\}) (\S+)$", text, re.MULTILINE)
        return {
            key: float(count) - since.get(key, 0) for key, count in found if float(count) != since.get(key)
        }

    def settle(self) -> None:
        """Returns when the scheduler has handled what was done before, as far as it can be seen: a pod that
        is made after it was decided."""
        before = self.attempts("probing")
        self._probes += 1
        self.pod(f"probe-{self._probes}", scheduler="probing", tolerations=[{"operator": "Exists"}])
        eventually(lambda: self.attempts("probing") > before)

    @contextmanager
    def nothing_is_retried(self) -> Iterator[None]:
        """What is done within brings no pod back."""
        self.settle()
        before, parked, moved = self.attempts(), self.waiting("unschedulable"), self.moves({})
        yield
        self.settle()
        assert self.attempts() == before, f"brought back by one of {self.moves(moved)}"
        assert self.waiting("unschedulable") == parked

    # Clearing up

    def close(self) -> None:
        self._pages.close()

    def clear(self) -> None:
        """Pods go first, the newest first, so that nothing is tried again for what goes with them."""
        pods = [path for path in self._made if path.startswith(PODS)]
        others = [path for path in self._made if not path.startswith(PODS)]
        for path in (*reversed(pods), *reversed(others)):
            self._forget(path)
        self._made.clear()
        eventually(lambda: not self.cached("nodes") and not self.cached("pods"))
        eventually(lambda: not self.metric("scheduler_pending_pods"))

    def _forget(self, path: str) -> None:
        with contextlib.suppress(ApiError):  # what is gone already
            answer = self.api.delete(f"{path}?gracePeriodSeconds=0")
            if answer.get("metadata", {}).get("finalizers"):
                self.api.patch(path, {"metadata": {"finalizers": None}})
