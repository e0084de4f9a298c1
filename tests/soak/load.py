"""Pods that come in bursts, and go again: what keeps the schedulers busy while things fail."""

from __future__ import annotations

import contextlib
import http.client
import queue
import random
import threading
import time
from typing import Any

from tests.control_plane.client import ApiError, Client
from tests.control_plane.plane import ControlPlane
from tests.soak.ledger import Ledger

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
_WORKERS = 4
_GIVE_UP = 120.0
_FINE = frozenset({404, 409})
_CPU = (50, 100, 100, 150)
NODE_CPU = 2
PODS_PER_NODE = 20
"""So many of average size fill a node's CPUs."""
_TOO_BIG_EVERY = 400
"""One pod in so many fits nowhere, and stays pending for a true reason."""
_NOWHERE_EVERY = 433


def node(number: int) -> dict[str, Any]:
    """Room for about 20 pods of the load, so that nodes get full and mistakes show."""
    name = f"node-{number:04d}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 3}"}
    room = {"cpu": str(NODE_CPU), "memory": "16Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
    }


def pod(number: int, chance: random.Random) -> dict[str, Any]:
    """A pod of some size; now and then one that fits nowhere."""
    cpu, labels = f"{chance.choice(_CPU)}m", {"app": f"app-{number % 20}"}
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": 0}
    if number % _TOO_BIG_EVERY == _TOO_BIG_EVERY - 1:
        cpu = str(2 * NODE_CPU)
    elif number % _NOWHERE_EVERY == _NOWHERE_EVERY - 1:
        spec["nodeSelector"] = {"kubernetes.io/hostname": "nowhere"}
    elif number % 5 == 1:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 5,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    requests = {"cpu": cpu, "memory": "100Mi"}
    spec["containers"] = [{"name": "main", "image": "pause", "resources": {"requests": requests}}]
    return {"metadata": {"name": f"pod-{number:06d}", "labels": labels}, "spec": spec}


class Load:
    """Creates pods in the background, in order, as many as asked for; deletes some that are placed."""

    def __init__(self, plane: ControlPlane, ledger: Ledger, total: int, seed: int) -> None:
        self.total = total
        self.created = 0
        self.finished = 0
        self.failure: BaseException | None = None
        self._plane = plane
        self._ledger = ledger
        self._chance = random.Random(seed)
        self._asked = self._to_finish = 0
        self._work: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(_WORKERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join(10)

    def burst(self, count: int) -> None:
        """Has so many more pods created, if there are so many left."""
        for number in range(self._asked, min(self._asked + count, self.total)):
            self._work.put((PODS, pod(number, self._chance)))
        self._asked = min(self._asked + count, self.total)

    @property
    def left(self) -> int:
        return self.total - self._asked

    @property
    def idle(self) -> bool:
        """Whether everything asked for is done."""
        return self.created >= self._asked and self.finished >= self._to_finish

    def finish(self, count: int) -> None:
        """Has some placed pods deleted, as if they were done: others get their room."""
        placed = self._ledger.placed()
        chosen = self._chance.sample(placed, min(count, len(placed)))
        self._to_finish += len(chosen)
        for each in chosen:
            self._work.put((f"{PODS}/{each.name}", None))

    def _run(self) -> None:
        client: Client | None = None
        try:
            while (job := self._work.get()) is not None:
                client = self._persist(client, *job)
        except BaseException as problem:  # noqa: BLE001 -- shown at the end: without its load, a run says nothing
            self.failure = problem
        finally:
            if client is not None:
                client.close()

    def _persist(self, client: Client | None, path: str, body: dict[str, Any] | None) -> Client:
        """Until it is done: the API server may be away for a while."""
        deadline = time.monotonic() + _GIVE_UP
        while True:
            try:
                if client is None:
                    client = self._plane.client()
                if body is None:
                    client.delete(path)
                else:
                    client.create(path, body)
                break
            except ApiError as error:
                if error.status in _FINE:
                    break
                if time.monotonic() > deadline:
                    raise
            except (OSError, http.client.HTTPException):
                if time.monotonic() > deadline:
                    raise
                if client is not None:
                    with contextlib.suppress(OSError):
                        client.close()
                client = None
            time.sleep(0.2)
        with self._counting:
            if body is None:
                self.finished += 1
            else:
                self.created += 1
        assert client is not None
        return client
