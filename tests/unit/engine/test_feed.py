"""What informers say reaches the cluster and wakes the right pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.engine.feed import Feed
from stowplan.framework.waiting import WaitingPod
from stowplan.objects import KubeObject, Node, PersistentVolumeClaim, Pod, Service, StorageClass
from stowplan.queue import SchedulingQueue
from stowplan.testing.builders import make_node, make_object, make_pod


class World:
    """A cluster, its queue and the feed, as they are wired to an API server."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.scheduler = Scheduler(self.cluster)
        self.time = 1000.0
        self.queue = SchedulingQueue(self.scheduler.profiles, self.cluster.nominations, lambda: self.time)
        self.waiting = self.scheduler.host.waiting
        self.feed = Feed(self.cluster, self.queue, self.scheduler.profiles, self.waiting)

    def add(self, *objects: KubeObject) -> None:
        for obj in objects:
            self.feed.observe(None, obj)

    def park(self, pod: Pod, *plugins: str) -> Pod:
        """A pending pod that these plugins have rejected."""
        self.add(pod)
        queued = self.queue.pop()
        assert queued is not None
        self.queue.add_unschedulable(queued, frozenset(plugins))
        return pod

    def where(self, pod: Pod) -> str:
        return self.queue.where(pod.key)


def pending(name: str = "p", **status: Any) -> Pod:
    return make_pod(name).requests(cpu="1").status(**status).build()


def placed(name: str, node: str = "n1", **status: Any) -> Pod:
    return make_pod(name).requests(cpu="1").status(**status).build().placed_on(node)


def node(name: str = "n1") -> Node:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods=10).build()


def deleted(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, deleted=5.0)


# ---------------------------------------------------------------- pods


def test_a_pending_pod_is_queued_and_a_placed_one_counts() -> None:
    world = World()
    world.add(node(), pending("waits"), placed("runs"))
    assert world.where(pending("waits")) == "active"
    assert [pod.name for pod in world.cluster.pods.values()] == ["runs"]


def test_pods_of_other_schedulers_count_but_are_never_queued() -> None:
    world = World()
    theirs = make_pod("theirs").scheduler("other").build()
    world.add(node(), theirs)
    world.feed.observe(theirs, make_pod("theirs").scheduler("other").labels(a="b").build())
    assert len(world.queue) == 0
    world.feed.observe(theirs, theirs.placed_on("n1"))
    assert len(world.cluster.pods) == 1
    world.feed.observe(theirs.placed_on("n1"), None)
    assert len(world.cluster.pods) == 0


def test_a_pod_that_somebody_else_binds_leaves_the_queue() -> None:
    world = World()
    world.add(node(), pending())
    world.feed.observe(pending(), pending().placed_on("n1"))
    assert len(world.queue) == 0
    assert len(world.cluster.pods) == 1


def test_an_assumed_pod_is_confirmed_when_it_is_seen_on_its_node() -> None:
    world = World()
    world.add(node(), pending())
    assert world.queue.pop() is not None
    assumed = world.cluster.assume(pending(), "n1")
    world.feed.observe(pending(), pending(phase="Pending", conditions=[{"type": "x"}]))
    assert len(world.queue) == 0, "while it is on its way its updates do not put it back"
    world.feed.observe(pending(), assumed)
    assert not world.cluster.assumed
    assert len(world.cluster.pods) == 1


def test_an_assumed_pod_that_is_deleted_frees_its_room() -> None:
    world = World()
    world.add(node(), pending())
    assert world.queue.pop() is not None
    world.cluster.assume(pending(), "n1")
    parked = world.park(pending("parked"), "NodeResourcesFit")
    world.feed.observe(pending(), deleted(pending()))
    assert not world.cluster.pods
    assert world.where(parked) == "backoff"
    world.feed.observe(deleted(pending()), None)


def test_an_assumed_pod_that_waits_for_permission_is_turned_back() -> None:
    world = World()
    world.add(node(), pending())
    world.cluster.assume(pending(), "n1")
    waiting = WaitingPod(pending(), "n1", {"Gang": 60.0})
    world.waiting.add(waiting)
    verdicts: list[Any] = []
    waiting.when_settled(verdicts.append)
    world.feed.observe(pending(), None)
    assert [verdict.message for verdict in verdicts] == ["removed"]
    assert world.cluster.assumed, "whoever holds it back cleans up"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_completed_pod_is_as_good_as_gone(phase: str) -> None:
    world = World()
    world.add(node(), placed("runs"), placed("never-seen-running", phase=phase))
    assert [pod.name for pod in world.cluster.pods.values()] == ["runs"]
    parked = world.park(pending("parked"), "NodeResourcesFit")
    world.feed.observe(placed("runs"), placed("runs", phase=phase))
    assert not world.cluster.pods
    assert world.where(parked) == "backoff"
    world.feed.observe(placed("runs", phase=phase), None)


def test_a_pod_whose_binding_was_missed_is_removed_from_its_node() -> None:
    world = World()
    world.add(node(), placed("p"))
    world.feed.observe(pending("p"), None)
    assert not world.cluster.pods


def test_a_new_pod_of_the_same_name_replaces_the_old() -> None:
    world = World()
    old, new = pending(), msgspec.structs.replace(pending(), uid="other")
    world.park(old, "NodeResourcesFit")
    world.feed.observe(old, new)
    held = world.queue.get(new.key)
    assert held is not None
    assert (held.pod.uid, held.attempts) == ("other", 0)


def test_the_same_version_again_changes_nothing() -> None:
    world = World()
    old = msgspec.structs.replace(pending(), resource_version="7")
    world.park(old, "SchedulingGates")
    world.feed.observe(old, msgspec.structs.replace(old, labels=make_pod("x").labels(a="b").build().labels))
    held = world.queue.get(old.key)
    assert held is not None
    assert held.pod is old


def promised(name: str, node_name: str, priority: int = 5) -> Pod:
    return make_pod(name).spec(priority=priority).status(nominatedNodeName=node_name).build()


@pytest.mark.parametrize("after", [None, promised("p", ""), promised("p", "n2")])
def test_the_end_of_a_promise_wakes_who_is_not_more_important(after: Pod | None) -> None:
    world = World()
    world.add(node())
    low = world.park(make_pod("low").spec(priority=5).build(), "NodeResourcesFit")
    high = world.park(make_pod("high").spec(priority=6).build(), "NodeResourcesFit")
    world.add(promised("p", "n1"))
    world.feed.observe(promised("p", "n1"), after)
    assert (world.where(low), world.where(high)) == ("backoff", "unschedulable")


# ---------------------------------------------------------------- other kinds


def test_a_new_node_wakes_who_fits_there() -> None:
    world = World()
    fits = world.park(pending("fits"), "NodeResourcesFit")
    too_big = world.park(make_pod("big").requests(cpu="9").build(), "NodeResourcesFit")
    world.add(node())
    assert (world.where(fits), world.where(too_big)) == ("backoff", "unschedulable")


def test_a_heartbeat_wakes_nobody_but_is_known() -> None:
    world = World()
    world.add(node())
    parked = world.park(pending(), "NodeResourcesFit", "NodeName", "TaintToleration")
    newer = msgspec.structs.replace(node(), resource_version="9")
    world.feed.observe(node(), newer)
    assert world.where(parked) == "unschedulable"
    assert world.cluster.table.nodes[0] is newer


def test_pods_are_woken_while_a_node_that_goes_is_still_known() -> None:
    world = World()
    world.add(node())
    seen: list[bool] = []
    spread = make_pod("p").spread("zone", app="web").labels(app="web").build()
    world.park(spread, "PodTopologySpread")
    move: Callable[..., None] = world.queue.move

    def watched(*arguments: Any, **options: Any) -> None:
        seen.append(world.cluster.node("n1") is not None)
        move(*arguments, **options)

    world.queue.move = watched  # type: ignore[method-assign]
    world.feed.observe(node(), None)
    assert seen == [True]
    assert world.cluster.node("n1") is None


def test_other_objects_are_in_the_cluster_before_pods_are_woken() -> None:
    world = World()
    claim = make_object(PersistentVolumeClaim, "c")
    parked = world.park(make_pod("p").pvc("c").build(), "VolumeBinding")
    world.add(make_object(Service, "web"))
    assert world.where(parked) == "unschedulable"
    world.add(claim)
    assert world.where(parked) == "backoff"
    world.feed.observe(claim, None)
    assert world.cluster.claims.get("default/c") is None


def test_a_changed_object_counts_as_changed() -> None:
    world = World()
    before = make_object(StorageClass, "fast", provisioner="x")
    world.add(before)
    parked = world.park(pending(), "VolumeBinding")
    world.feed.observe(before, make_object(StorageClass, "fast", provisioner="y"))
    assert world.where(parked) == "unschedulable"
    topology = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    world.feed.observe(before, make_object(StorageClass, "fast", provisioner="x", allowedTopologies=topology))
    assert world.where(parked) == "backoff"
