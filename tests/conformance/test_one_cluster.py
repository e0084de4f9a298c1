"""The cases once more, one after the other in one cluster that is changed from each case to the next.

What is kept up while objects of all kinds come, change and go, and what is remembered of pods decided in
between, must give the same answers as a cluster that was built for the case.
"""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from conformance.cases import Case, family_of, own_files, read_cases
from conformance.product import World
from conformance.runner import judge
from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.objects import KubeObject, Node, Pod, decode_object

LEFT_OUT = {"profiles", "requeue"}
"""They need another scheduler or another queue for each case."""
FAMILIES = {family_of(path): path for path in own_files() if family_of(path) not in LEFT_OUT}
CASES = 40

Key = tuple[type[KubeObject], str]


class OneCluster(World):
    """The cluster of the last case on its way to the next, with one scheduler for all."""

    def __init__(self, random: Random) -> None:
        self.cluster = Cluster()
        self.scheduler = Scheduler(self.cluster)
        self._random = random
        self._objects: dict[Key, KubeObject] = {}

    def become(self, case: Case) -> None:
        """Removes and adds objects in random order; now and then a pod is decided in between."""
        objects = {(type(obj), obj.key): obj for obj in map(decode_object, case.objects)}
        pods = [obj for obj in objects.values() if isinstance(obj, Pod)]
        self._pending = {pod.key: pod for pod in pods if not pod.node_name}
        self._placed = {pod.key: pod for pod in pods if pod.node_name}
        self._renew_what_has_a_past([obj for obj in objects.values() if isinstance(obj, Node)])
        changes = [(key, None) for key in self._objects.keys() - objects.keys()] + [*objects.items()]
        self._random.shuffle(changes)
        for key, obj in changes:
            self._change(key, obj)
            if self._pending and self._random.random() < 0.05:
                self.decide(self._random.choice(list(self._pending)))
        self._objects = objects
        self._line_up()

    def _renew_what_has_a_past(self, nodes: list[Node]) -> None:
        """Pods that the last case placed; and nodes with images, in order, because an image stays as large as
        the first node said that holds it."""
        for pod in list(self.cluster.pods.values()):
            if self._objects.get((Pod, pod.key)) is not pod:
                self.cluster.remove_pod(pod.uid)
        for node in [node for node in self.cluster.table.nodes if node.status.images]:
            self.cluster.remove(node)
        for node in nodes:
            if node.status.images:
                self.cluster.add(node)

    def _change(self, key: Key, obj: KubeObject | None) -> None:
        before = self._objects.get(key)
        if isinstance(before, Pod):
            self.cluster.nominations.remove(before.uid)
        if before is not None and obj is None:
            self.cluster.remove(before)
        elif obj is not None:
            self.cluster.add(obj)
        if isinstance(obj, Pod) and not obj.node_name and obj.status.nominated_node_name:
            self.cluster.nominations.add(obj, obj.status.nominated_node_name)

    def _line_up(self) -> None:
        """The order in which pods came decides between those that are equal otherwise."""
        for key in sorted(self._placed):
            self.cluster.remove_pod(self._placed[key].uid)
            self.cluster.add(self._placed[key])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cluster_that_was_another_one_before_answers_all_the_same(family: str) -> None:
    world = OneCluster(Random(family))
    plain = (case for case in read_cases(FAMILIES[family]) if not bytes(case.config))
    for case in islice(plain, CASES):
        world.become(case)
        for key, want in zip(case.pods, case.want, strict=True):
            assert judge(world, key, want) == [], case.id
            if case.sequence and want.placed:
                world.place(key, want.placed)
