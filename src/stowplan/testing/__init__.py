"""Builders and fixtures for tests, of this project and of plugin authors."""

from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.deciding import Queued, cluster_of, decide, explain, scheduler
from stowplan.testing.plugins import build_plugin

__all__ = [
    "Queued",
    "build_plugin",
    "cluster_of",
    "decide",
    "explain",
    "make_node",
    "make_object",
    "make_pod",
    "scheduler",
]
