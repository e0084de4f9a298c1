"""A single plugin, built without a configuration, for tests that call its points directly."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from stowplan.cluster import Cluster
from stowplan.framework.contract import Plugin
from stowplan.framework.handle import Host
from stowplan.framework.points import points_of
from stowplan.framework.profile import Profile, ProfilePlan
from stowplan.framework.registry import register

P = TypeVar("P", bound=Plugin)


def build_plugin(cls: type[P], cluster: Cluster, **args: Any) -> P:
    """The plugin with these args (named as in a configuration file), in a profile of its own."""
    given = msgspec.convert(args, cls.Args).completed()
    for path, problem in given.problems():
        raise ValueError(f"{cls.name}: {path}: {problem}")
    registry = register([cls])
    plan = ProfilePlan(points=dict.fromkeys(points_of(cls), (cls.name,)), args={cls.name: given})
    plugin = Profile(plan, registry, Host(cluster)).plugins[cls.name]
    assert isinstance(plugin, cls)
    return plugin
