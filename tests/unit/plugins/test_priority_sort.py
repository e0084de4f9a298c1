"""PrioritySort: priority first, then who waits longest."""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.cluster import Cluster
from stowplan.objects import Pod
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin


@dataclass
class Waiting:
    pod: Pod
    timestamp: float
    attempts: int = 0


def test_higher_priority_goes_first_and_among_equals_the_older() -> None:
    plugin = build_plugin(PrioritySort, Cluster())
    high = Waiting(make_pod("high").priority(10).build(), timestamp=3.0)
    early = Waiting(make_pod("early").build(), timestamp=1.0)
    late = Waiting(make_pod("late").build(), timestamp=2.0)
    low = Waiting(make_pod("low").priority(-5).build(), timestamp=0.0)
    ordered = sorted([low, late, high, early], key=plugin.sort_key)
    assert [waiting.pod.name for waiting in ordered] == ["high", "early", "late", "low"]
