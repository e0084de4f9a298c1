"""ImageLocality: prefers nodes that already have the pod's images.

An image counts by its size, and by the share of nodes that have it: an image that few nodes have must not
draw all its pods to those few.
"""

from __future__ import annotations

import numpy as np

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.framework import CycleState, Reads, ScorePlugin
from stowplan.framework.contract import MAX_SCORE
from stowplan.objects import Pod
from stowplan.objects.quantity import AMOUNT_MAX

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
"""Images smaller than this in sum are downloaded so fast that they do not count."""
_MOST_PER_CONTAINER = 1000 * _MIB


class ImageLocality(ScorePlugin):
    """Scores nodes by how much of the pod's images they hold."""

    reads = Reads.NODE
    shaped_by_template = True

    def shape(self, pod: Pod) -> tuple[int, tuple[str, ...]]:
        return _container_count(pod), tuple(sorted(_images(pod)))

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        held = 0
        for name in _images(pod):
            image = node.table.images.get(name)
            if image is not None and node.row in image.rows:
                held += _counted_size(image.size, len(image.rows), node.table.size)
        return _score(held, _container_count(pod))

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        table = nodes.table
        images = [image for name in _images(pod) if (image := table.images.get(name)) is not None]
        if not images:
            return _score(0, _container_count(pod))
        held = np.zeros(table.size, np.int64)
        for image in images:
            rows = np.fromiter(image.rows, np.int64, len(image.rows))
            held[rows] += _counted_size(image.size, len(rows), table.size)
        return _scores(held[nodes.rows], _container_count(pod))


def normal_name(image: str) -> str:
    """The image's name as nodes report it: with a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _images(pod: Pod) -> list[str]:
    """Every use of an image, repetitions included."""
    spec = pod.spec
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [normal_name(name) for name in names]


def _container_count(pod: Pod) -> int:
    return len(pod.spec.init_containers) + len(pod.spec.containers)


def _counted_size(size: int, holders: int, nodes: int) -> int:
    return max(-AMOUNT_MAX, min(AMOUNT_MAX, int(float(size) * (holders / nodes))))


def _score(held: int, containers: int) -> int:
    most = _MOST_PER_CONTAINER * containers
    within = _LEAST if held < _LEAST else min(held, most)
    return MAX_SCORE * (within - _LEAST) // (most - _LEAST)


def _scores(held: IntColumn, containers: int) -> IntColumn:
    """`_score` of many nodes at once."""
    most = _MOST_PER_CONTAINER * containers
    within = np.where(held < _LEAST, _LEAST, np.minimum(held, most))
    return MAX_SCORE * (within - _LEAST) // (most - _LEAST)
