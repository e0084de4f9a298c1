"""The core with everything plugged together: a cluster, a configuration, and a decision per pod.

cluster = Cluster()
for obj in decode_yaml(text):
    cluster.add(obj)
decision = Scheduler(cluster).decide(pod)
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from stowplan.cluster import Cluster
from stowplan.config.defaults import default_configuration
from stowplan.config.load import load_configuration
from stowplan.config.profiles import known_plugins, resolve_profiles
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.engine.decide import Decider
from stowplan.engine.explain import explain
from stowplan.engine.sampling import Rotation
from stowplan.engine.trace import Trace
from stowplan.framework.contract import Client
from stowplan.framework.decision import Decision
from stowplan.framework.failure import pass_on_exit
from stowplan.framework.handle import Host, ReadOnlyClient
from stowplan.framework.profile import Profile
from stowplan.framework.registry import Registry
from stowplan.objects import Pod
from stowplan.plugins import IN_TREE

log = logging.getLogger(__name__)


class UnknownSchedulerError(LookupError):
    """A pod that names a scheduler for which there is no profile."""


class Scheduler:
    """Decides pods by the profiles of a configuration. Knows no socket and no clock but what it is given."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: KubeSchedulerConfiguration | None = None,
        *,
        registry: Registry = IN_TREE,
        client: Client | None = None,
        now: Callable[[], float] = lambda: 0.0,
        seed: int = 0,
    ) -> None:
        self.cluster = cluster
        self.configuration = configuration or default_configuration()
        self.host = Host(cluster, client or ReadOnlyClient(), now, seed=seed)
        plans = resolve_profiles(self.configuration, known_plugins(registry))
        self.profiles = {plan.scheduler_name: Profile(plan, registry, self.host) for plan in plans}
        rotation = Rotation(cluster)
        self._deciders = {name: Decider(profile, rotation) for name, profile in self.profiles.items()}

    @classmethod
    def from_file(
        cls, cluster: Cluster, text: bytes, name: str = "configuration", *, registry: Registry = IN_TREE
    ) -> Scheduler:
        """With a KubeSchedulerConfiguration as it stands in a file (YAML or JSON); `name` is for messages.
        Raises `ConfigError` with everything that is wrong with it."""
        loaded = load_configuration(text, name, known_plugins(registry))
        return cls(cluster, loaded.configuration, registry=registry)

    def decide(self, pod: Pod, attempt: int = 0) -> Decision:
        """Which node the pod should go to, or why none. The cluster stays as it is."""
        return self._deciders[self._profile_name(pod)].decide(pod, attempt)

    def explain(self, pod: Pod) -> Trace:
        """What every plugin says of every node for this pod, as of now."""
        return explain(self.profiles[self._profile_name(pod)], pod)

    def close(self) -> None:
        """Closes all plugins, whatever fails."""
        for profile in self.profiles.values():
            for plugin in profile.plugins.values():
                try:
                    plugin.close()
                except BaseException as problem:
                    pass_on_exit(problem)
                    log.exception("plugin %s of profile %s cannot be closed", plugin.name, profile.name)

    def _profile_name(self, pod: Pod) -> str:
        name = pod.spec.scheduler_name
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles))
            raise UnknownSchedulerError(f"Pod {pod.key} asks for scheduler {name!r}; there are {known}")
        return name
