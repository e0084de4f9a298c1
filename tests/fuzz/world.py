"""A small cluster with something of everything, into which odd objects come and from which they go again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Self

from stowplan.cluster import Cluster
from stowplan.engine import Decision, Scheduler
from stowplan.engine.feed import Feed
from stowplan.engine.reserving import run_reserve, run_unreserve
from stowplan.framework.status import Code
from stowplan.objects import KubeObject, Pod, decode_yaml
from stowplan.queue import SchedulingQueue
from stowplan.testing.builders import make_pod
from tests.unit.cluster.picture import columns_of, picture

MANIFESTS = """
{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {app: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {selector: {app: web}}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: slow}, provisioner: csi.example.com,
 volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim, namespace: default, uid: claim},
 spec: {storageClassName: slow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n0},
 spec: {drivers: [{name: csi.example.com, nodeID: n0, topologyKeys: [zone], allocatable: {count: 4}}]}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: default},
 spec: {selector: {matchLabels: {app: web}}}, status: {disruptionsAllowed: 1}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu.example.com},
 spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}], extendedResourceName: example.com/gpu}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: n0-gpu.example.com},
 spec: {driver: gpu.example.com, nodeName: n0, pool: {name: n0, generation: 1, resourceSliceCount: 1},
        devices: [{name: dev-0}, {name: dev-1}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: web, namespace: default, uid: web-claim},
 spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com,
                                                         allocationMode: ExactCount, count: 1}}]}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n0, uid: n0, labels: {zone: x, app: a, kubernetes.io/hostname: n0}},
 status: {allocatable: {cpu: 8, memory: 32Gi, pods: 20, example.com/gpu: 1, hugepages-2Mi: 10Mi}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, uid: n1, labels: {zone: y, kubernetes.io/hostname: n1}},
 status: {allocatable: {cpu: 4, memory: 16Gi, pods: 10}, images: [{names: ["x:1"], sizeBytes: 300000000}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, uid: n2, labels: {zone: y, kubernetes.io/hostname: n2}},
 spec: {taints: [{key: app, value: web, effect: NoSchedule}]}, status: {allocatable: {cpu: 2, memory: 8Gi, pods: 4}}}
"""  # noqa: E501


def base_objects() -> list[KubeObject]:
    """What is there before anything odd comes. No two nodes are equally good for anything."""
    kept_apart = make_pod("apart").labels(app="a").requests(cpu=1).pod_anti_affinity("zone", app="web")
    drawn = make_pod("p2").labels(app="x").requests(memory="1Gi").pod_affinity("zone", weight=3, app="a")
    placed = [
        make_pod("p0").labels(app="web").requests(cpu=1).host_port(80).on_node("n0"),
        kept_apart.priority(-5).on_node("n1"),
        drawn.on_node("n2"),
    ]
    return [*decode_yaml(MANIFESTS), *(pod.build() for pod in placed)]


def ordinary_pods() -> list[Pod]:
    """Pods that use nothing but nodes: whatever else there is, deciding them must not be an error."""
    picky = make_pod("picky").labels(app="web").requests(cpu="500m", memory="1Gi").tolerate("app", "web")
    picky.spread("zone", app="web").pod_affinity("kubernetes.io/hostname", weight=7, app="a")
    picky.prefer_nodes(5, "zone", "y").node_selector({"zone": "y"})
    apart = make_pod("apart").labels(app="z").pod_anti_affinity("zone", app="x").host_port(80).image("x:1")
    return [make_pod("plain").labels(app="x").requests(cpu=1).build(), picky.build(), apart.build()]


def needy_pods() -> list[Pod]:
    """Pods that use other objects, and may be an error because of them."""
    with_device = make_pod("device").spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "web"}])
    return [
        make_pod("volume").pvc("claim").build(),
        with_device.build(),
        make_pod("extended").requests({"example.com/gpu": 1}).priority(10).build(),
    ]


class Complaints(logging.Handler):
    """Collects what is logged as an error: nothing that an object says may come to that."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        logging.getLogger("stowplan").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("stowplan").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"logged: {logging.Formatter().format(record)}")


PARKED: Mapping[str, frozenset[str]] = {
    "picky": frozenset(("NodeAffinity", "TaintToleration", "NodeResourcesFit", "NodeUnschedulable")),
    "apart": frozenset(("InterPodAffinity", "PodTopologySpread", "NodePorts", "NodeDeclaredFeatures")),
    "volume": frozenset(("VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions")),
    "device": frozenset(("DynamicResources",)),
    "extended": frozenset(("DynamicResources", "NodeResourcesFit")),
}
"""Pods that wait in the queue, and who is asked what an event means for them."""


class World:
    """The cluster, its queue and the feed, as they are wired to an API server."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self.cluster = Cluster()
        self.scheduler = Scheduler(self.cluster)
        self.objects = {(type(one), one.key): one for one in objects}
        self._queue = SchedulingQueue(self.scheduler.profiles, self.cluster.nominations, lambda: 0.0)
        self._feed = Feed(self.cluster, self._queue, self.scheduler.profiles)
        self._parked = [pod for pod in (*ordinary_pods(), *needy_pods()) if pod.name in PARKED]
        for one in self.objects.values():
            self._feed.observe(None, one)
        for pod in self._parked:
            self._feed.observe(None, pod)
        self._drain()

    def put(self, new: KubeObject) -> None:
        """As when the API server shows it: it may be new, or in the place of another."""
        where = type(new), new.key
        self._feed.observe(self.objects.get(where), new)
        self.objects[where] = new
        self._drain()

    def remove(self, gone: KubeObject) -> None:
        self._feed.observe(self.objects.pop((type(gone), gone.key)), None)
        self._drain()

    def _drain(self) -> None:
        """Lets all pods that are up for a decision have one that keeps them waiting."""
        while (queued := self._queue.pop()) is not None:
            self._queue.add_unschedulable(queued, PARKED.get(queued.pod.name, frozenset(("NodeAffinity",))))

    def start_over(self) -> World:
        """Another one, built from scratch from the same objects."""
        return World(self.objects.values())

    def decide(self, pod: Pod) -> Decision:
        """A decision, and what comes of it: taking the node and giving it back."""
        decision = self.scheduler.decide(pod)
        if decision.node_name is not None and pod.uid not in self.cluster.pods:
            self._take_and_give_back(pod, decision, decision.node_name)
        return decision

    def _take_and_give_back(self, pod: Pod, decision: Decision, name: str) -> None:
        profile = self.scheduler.profiles[pod.spec.scheduler_name]
        self.cluster.assume(pod, name)
        run_reserve(profile, decision.state, pod, name)
        failures = run_unreserve(profile, decision.state, pod, name)
        self.cluster.forget(pod.uid)
        assert not failures, failures

    def answers(self, pods: Iterable[Pod]) -> dict[str, tuple[Any, ...]]:
        """What is decided about each of the pods, in all that does not depend on the order of nodes."""
        return {pod.name: _answer(self.decide(pod)) for pod in pods}

    def state(self) -> dict[str, Any]:
        """Everything derived, and who waits in the queue."""
        return {
            **picture(self.cluster),
            "columns": sorted(sorted(column) for column in columns_of(self.cluster)),
            "waiting": {queued.key for queued in self._queue.pods()},
        }


def _answer(decision: Decision) -> tuple[Any, ...]:
    code = Code.SUCCESS if decision.status is None else decision.status.code
    victims = frozenset(pod.key for pod in decision.victims)
    return code, decision.node_name, decision.nominated_node, decision.message, decision.feasible, victims
