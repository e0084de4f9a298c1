"""A decider with just the plugins that a test names."""

from __future__ import annotations

from stowplan.cluster import Cluster
from stowplan.engine.decide import Decider
from stowplan.framework import Plugin
from stowplan.framework.handle import Host
from stowplan.framework.points import POINTS, points_of
from stowplan.framework.profile import Profile, ProfilePlan
from stowplan.framework.registry import register


def decider(
    cluster: Cluster, *plugins: type[Plugin], percentage: int = 0, seed: int = 0, **weights: int
) -> Decider:
    """Decides with these plugins at every point they serve, in this order."""
    registry = register(plugins)
    plan = ProfilePlan(
        percentage_of_nodes_to_score=percentage,
        points={
            point: tuple(name for name, plugin in registry.items() if point in points_of(plugin))
            for point in POINTS
        },
        weights=weights,
        args=dict.fromkeys(registry),
    )
    return Decider(Profile(plan, registry, Host(cluster, seed=seed)))
