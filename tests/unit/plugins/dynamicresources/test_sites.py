from __future__ import annotations

import random
from typing import Any

import pytest

from stowplan.objects import Node, ResourceSlice
from stowplan.plugins.dynamicresources.reach import ReachError
from stowplan.plugins.dynamicresources.sites import Sites
from stowplan.testing.builders import make_node
from tests.unit.plugins.dynamicresources.world import device, make_slice

COUNTERS = [{"name": "whole", "counters": {"slots": {"value": "4"}}}]


def zone(value: str) -> dict[str, Any]:
    return {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}]
    }


def make_sites(*slices: ResourceSlice) -> Sites:
    sites = Sites()
    for one in slices:
        sites.change(None, one)
    return sites


def node(name: str = "n1", **labels: str) -> Node:
    return make_node(name).labels(labels).build()


def usable(sites: Sites, where: Node) -> list[str]:
    """The devices that may be tried, in order."""
    return ["/".join(one.device.id[1:]) for one in sites.site(where).candidates if one.here]


def flaws(sites: Sites, where: Node) -> dict[str, str]:
    return {
        pool.id[1]: "incomplete" if pool.incomplete else "invalid"
        for pool, _ in sites.site(where).pools
        if not pool.usable
    }


# ---------------------------------------------------------------- which devices


def test_slices_are_for_one_node_all_nodes_or_selected_ones() -> None:
    sites = make_sites(
        make_slice("a", [device("a")], pool="a", nodeName="n1"),
        make_slice("b", [device("b")], pool="b"),
        make_slice("c", [device("c")], pool="c", nodeSelector=zone("x")),
    )
    assert usable(sites, node("n1", zone="x")) == ["a/a", "b/b", "c/c"]
    assert usable(sites, node("n2", zone="y")) == ["b/b"]


def test_devices_of_one_slice_may_be_for_different_nodes() -> None:
    devices = [
        device("one", nodeName="n1"),
        device("all", allNodes=True),
        device("some", nodeSelector=zone("x")),
        device("none"),
    ]
    sites = make_sites(make_slice("s", devices, perDeviceNodeSelection=True))
    assert usable(sites, node("n1")) == ["pool/one", "pool/all"]
    assert usable(sites, node("n2", zone="x")) == ["pool/all", "pool/some"]


def test_a_slice_that_says_nothing_about_nodes_is_ignored() -> None:
    assert usable(make_sites(make_slice("s", [device("a")], allNodes=False)), node()) == []


def test_pools_are_tried_by_driver_and_name_slices_by_name() -> None:
    sites = make_sites(
        make_slice("s2", [device("c"), device("b")], pool="p1", count=2),
        make_slice("s1", [device("d")], pool="p1", count=2),
        make_slice("s3", [device("a")], pool="p0", driver="z.com"),
        make_slice("s4", [device("e")], pool="p0"),
    )
    assert usable(sites, node()) == ["p0/e", "p1/d", "p1/c", "p1/b", "p0/a"]


def test_pools_with_devices_that_become_ready_later_are_tried_last() -> None:
    sites = make_sites(
        make_slice("s1", [device("a", bindingConditions=["ready"])], pool="a"),
        make_slice("s2", [device("b")], pool="b"),
    )
    assert usable(sites, node()) == ["b/b", "a/a"]


def test_a_selector_that_makes_no_sense_is_an_error() -> None:
    bad = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}
    sites = make_sites(make_slice("s", [device("a")], nodeSelector=bad))
    with pytest.raises(ReachError, match="failed to perform node selection for slice s: "):
        sites.site(node())


# ---------------------------------------------------------------- generations, completeness, validity


def test_only_the_newest_generation_counts() -> None:
    old = make_slice("s1", [device("old")], generation=1)
    new = make_slice("s2", [device("new")], generation=2)
    assert usable(make_sites(old, new), node()) == ["pool/new"]


def test_a_pool_whose_newer_generation_is_elsewhere_is_left_out() -> None:
    old = make_slice("s1", [device("old")], generation=1, count=2)
    new = make_slice("s2", [device("new")], generation=2, nodeName="n2")
    sites = make_sites(old, new)
    assert sites.site(node("n1")).pools == []


def test_a_pool_of_which_slices_are_missing_is_incomplete() -> None:
    sites = make_sites(make_slice("s", [device("a")], count=2))
    assert usable(sites, node()) == []
    assert flaws(sites, node()) == {"pool": "incomplete"}


def test_slices_for_other_nodes_make_a_pool_complete() -> None:
    sites = make_sites(
        make_slice("s1", [device("a")], count=2, nodeName="n1"),
        make_slice("s2", [device("b")], count=2, nodeName="n2"),
    )
    assert usable(sites, node("n1")) == ["pool/a"]


@pytest.mark.parametrize(
    "slices",
    [
        [make_slice("s", [device("a"), device("a")])],
        [make_slice("s1", [device("a")], count=2), make_slice("s2", [device("a")], count=2)],
        [make_slice("s", [device("a", consumesCounters=[{"counterSet": "nope", "counters": {}}])])],
        [
            make_slice("s1", sharedCounters=COUNTERS, count=2),
            make_slice("s2", sharedCounters=COUNTERS, count=2),
        ],
    ],
)
def test_a_pool_that_contradicts_itself_is_invalid(slices: list[ResourceSlice]) -> None:
    assert flaws(make_sites(*slices), node()) == {"pool": "invalid"}


def test_devices_elsewhere_are_checked_for_counters_but_not_for_names() -> None:
    use = [{"counterSet": "whole", "counters": {"slots": {"value": "1"}}}]
    bad = [{"counterSet": "whole", "counters": {"other": {"value": "1"}}}]
    counters = make_slice("s0", sharedCounters=COUNTERS, count=3)
    here = make_slice("s1", [device("a", consumesCounters=use)], count=3, nodeName="n1")
    same_name = make_slice("s2", [device("a", consumesCounters=use)], count=3, nodeName="n2")
    wrong = make_slice("s2", [device("b", consumesCounters=bad)], count=3, nodeName="n2")
    assert usable(make_sites(counters, here, same_name), node("n1")) == ["pool/a"]
    assert flaws(make_sites(counters, here, wrong), node("n1")) == {"pool": "invalid"}


def test_a_flawed_pool_with_counters_is_seen_by_every_node() -> None:
    counters = make_slice("s0", sharedCounters=COUNTERS, count=2, nodeName="n1")
    sites = make_sites(counters)
    assert flaws(sites, node("n2")) == {"pool": "incomplete"}
    sites.change(None, make_slice("s1", [device("a")], count=2, nodeName="n1"))
    assert flaws(sites, node("n2")) == {}
    assert usable(sites, node("n1")) == ["pool/a"]


# ---------------------------------------------------------------- changes


def test_labels_of_a_node_may_change() -> None:
    sites = make_sites(make_slice("s", [device("a")], nodeSelector=zone("x")))
    assert usable(sites, node("n1", zone="y")) == []
    assert usable(sites, node("n1", zone="x")) == ["pool/a"]


def test_sites_kept_up_to_date_equal_sites_made_anew() -> None:
    """After any sequence of changes to slices, every node sees what it would see in a fresh start."""
    rng = random.Random(7)
    nodes = [node(f"n{i}", zone=rng.choice("xy")) for i in range(3)]
    sites = Sites()
    known: dict[str, ResourceSlice] = {}
    for step in range(400):
        name = f"s{rng.randrange(6)}"
        new = None if rng.random() < 0.25 else _any_slice(name, rng)
        sites.change(known.pop(name, None), new)
        if new is not None:
            known[name] = new
        fresh = make_sites(*known.values())
        for one in nodes:
            assert usable(sites, one) == usable(fresh, one), step
            assert flaws(sites, one) == flaws(fresh, one), step


def _any_slice(name: str, rng: random.Random) -> ResourceSlice:
    where: dict[str, Any] = rng.choice(
        [{"nodeName": "n0"}, {"nodeName": "n1"}, {}, {"nodeSelector": zone("x")}, {"nodeSelector": zone("y")}]
    )
    pool, count, generation = rng.choice("pq"), rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
    if rng.random() < 0.25:
        return make_slice(
            name, sharedCounters=COUNTERS, pool=pool, count=count, generation=generation, **where
        )
    use = [{"counterSet": "whole", "counters": {"slots": {"value": "1"}}}] if rng.random() < 0.3 else []
    devices = [device(rng.choice("abcd"), consumesCounters=use)]
    return make_slice(name, devices, pool=pool, count=count, generation=generation, **where)
