"""Trials as preemption makes them, for tests of plugins that count pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.framework import CycleState, PreFilterPlugin
from stowplan.objects import Pod


def tried_changes(
    plugin: PreFilterPlugin,
    state: CycleState,
    pod: Pod,
    cluster: Cluster,
    new_pod: Callable[[str, str], Pod],
    data: st.DataObject,
) -> Iterator[CycleState]:
    """Within a trial, removes placed pods and adds new ones (by name and node), and tells the plugin. Yields
    the state of the trial after each."""
    with cluster.trial():
        trial_state = state.clone()
        for step in range(data.draw(st.integers(1, 3))):
            placed = [(one, node) for one in cluster.pods.values() if (node := cluster.node(one.node_name))]
            names = cluster.nodes.names
            removing = data.draw(st.booleans())
            if placed and removing:
                other, node = data.draw(st.sampled_from(placed))
                cluster.remove(other)
                plugin.remove_pod(trial_state, pod, other, node)
            elif names:
                other = new_pod(f"new{step}", data.draw(st.sampled_from(names)))
                cluster.add(other)
                where = cluster.node(other.node_name)
                assert where is not None
                plugin.add_pod(trial_state, pod, other, where)
            yield trial_state
