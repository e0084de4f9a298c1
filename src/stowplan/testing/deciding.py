"""A decision in one line, for tests of plugins and of whole configurations.

def test_small_nodes_are_preferred() -> None:
    cluster = cluster_of(make_node("big").capacity(cpu=64), make_node("small").capacity(cpu=4))
    assert decide(cluster, make_pod("p"), plugins=[SmallestNode]).node_name == "small"
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stowplan.cluster import Cluster
from stowplan.config.defaults import completed
from stowplan.config.load import load_configuration
from stowplan.config.profiles import known_plugins
from stowplan.config.types import KubeSchedulerConfiguration, Plugin, Plugins, PluginSet, Profile
from stowplan.engine import Decision, Scheduler, Trace
from stowplan.framework import contract
from stowplan.framework.points import points_of
from stowplan.framework.registry import Registry, register
from stowplan.objects import KubeObject, Pod
from stowplan.plugins import IN_TREE
from stowplan.testing.builders import ObjectBuilder, PodBuilder


def cluster_of(*objects: KubeObject | ObjectBuilder) -> Cluster:
    """A cluster with these objects; builders are built."""
    cluster = Cluster()
    for obj in objects:
        cluster.add(obj.build() if isinstance(obj, ObjectBuilder) else obj)  # type: ignore[attr-defined]
    return cluster


def decide(
    cluster: Cluster,
    pod: Pod | PodBuilder,
    *,
    plugins: Iterable[type[contract.Plugin]] = (),
    config: str | None = None,
) -> Decision:
    """Where the pod should go. `plugins` are known besides the in-tree ones; without a `config` (YAML)
    they are enabled at every point they serve, after the default ones."""
    return scheduler(cluster, plugins=plugins, config=config).decide(_built(pod))


def explain(
    cluster: Cluster,
    pod: Pod | PodBuilder,
    *,
    plugins: Iterable[type[contract.Plugin]] = (),
    config: str | None = None,
) -> Trace:
    """What every plugin says of every node for the pod."""
    return scheduler(cluster, plugins=plugins, config=config).explain(_built(pod))


def scheduler(
    cluster: Cluster,
    *,
    plugins: Iterable[type[contract.Plugin]] = (),
    config: str | None = None,
    seed: int = 0,
) -> Scheduler:
    """The core, for more than one question about one cluster."""
    configuration, registry = configured(plugins, config)
    return Scheduler(cluster, configuration, registry=registry, seed=seed)


def configured(
    plugins: Iterable[type[contract.Plugin]] = (), config: str | None = None
) -> tuple[KubeSchedulerConfiguration, Registry]:
    """A configuration, and all plugins it may name."""
    own = register(plugins)
    registry = {**IN_TREE, **own}
    if config is None:
        return completed(_enabling(own)), registry
    return load_configuration(config.encode(), "config", known_plugins(registry)).configuration, registry


@dataclass
class Queued:
    """A pod as it stands in the queue (a `QueuedPod`), for tests of queue sorts."""

    pod: Pod
    timestamp: float = 0.0
    attempts: int = 0


def _enabling(registry: Registry) -> KubeSchedulerConfiguration:
    """The default configuration with these plugins on top; one that sorts the queue takes the place of
    the default one."""
    sorters = [name for name, plugin in registry.items() if "queueSort" in points_of(plugin)]
    sets = Plugins(
        multi_point=PluginSet(enabled=tuple(Plugin(name=name) for name in registry if name not in sorters)),
        queue_sort=PluginSet(
            enabled=tuple(Plugin(name=name) for name in sorters),
            disabled=(Plugin(name="*"),) if sorters else (),
        ),
    )
    return KubeSchedulerConfiguration(profiles=(Profile(plugins=sets),))


def _built(pod: Pod | PodBuilder) -> Pod:
    return pod.build() if isinstance(pod, PodBuilder) else pod
