"""Which kinds of object profiles look at, held against the plugins themselves."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import stowplan.plugins
from stowplan.cluster import Cluster
from stowplan.config.load import load_configuration
from stowplan.config.profiles import known_plugins
from stowplan.config.reading import ALWAYS_READ, OWN_PLUGINS, kinds_read
from stowplan.framework.events import Resource
from stowplan.framework.handle import Host
from stowplan.framework.profile import Profile, ProfilePlan
from stowplan.objects import DeviceClass, Pod, ResourceClaim, ResourceSlice, Service, kind_of_record
from stowplan.plugins import IN_TREE

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
# Scoring by an extended resource makes every plugin read all it ever reads.
EVERYTHING = """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated, resources: [{name: example.com/gpu, weight: 1}]}}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: example.com/gpu, weight: 1}]}
"""
TABLES = {name: table for name, table in vars(Cluster()).items() if type(table).__name__ == "ObjectTable"}


def plans(body: str = "") -> tuple[ProfilePlan, ...]:
    return load_configuration((HEAD + body).encode(), "config", known_plugins(IN_TREE)).profiles


def reads(plugin: str, body: str = EVERYTHING) -> set[type]:
    return {kind for kind, plugins in kinds_read(plans(body)).items() if plugin in plugins}


def table_of(kind: type) -> str:
    cluster = Cluster()
    return next(name for name in TABLES if getattr(cluster, name) is cluster._tables[kind])


def tables_named_in(folder: Path) -> Iterator[str]:
    """The cluster's tables that the code in a folder looks into."""
    for file in folder.rglob("*.py") if folder.is_dir() else (folder,):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in TABLES:
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                if name in ("cluster", "_cluster"):
                    yield node.attr


def room_of(plugin: str) -> Path:
    """The folder of a plugin, or its file if it has no folder of its own."""
    file = Path(inspect.getfile(IN_TREE[plugin]))
    return file if file.parent == Path(stowplan.plugins.__file__).parent else file.parent


def test_every_plugin_of_this_package_is_known() -> None:
    assert set(IN_TREE) == OWN_PLUGINS


@pytest.mark.parametrize("room", sorted({room_of(plugin) for plugin in IN_TREE}), ids=lambda room: room.stem)
def test_a_plugin_looks_into_no_table_that_is_not_declared(room: Path) -> None:
    plugins = [plugin for plugin in IN_TREE if room_of(plugin) == room]
    declared = {table_of(kind) for plugin in plugins for kind in reads(plugin)}
    assert set(tables_named_in(room)) <= declared


@pytest.mark.parametrize("plugin", sorted(IN_TREE))
def test_a_plugin_waits_for_events_only_of_what_is_watched(plugin: str) -> None:
    (plan,) = plans(EVERYTHING)
    registered = Profile(plan, IN_TREE, Host(Cluster())).plugins[plugin].events()
    waited_for = {event.resource.rpartition("/")[2] for event in registered or ()}
    watched = {kind_of_record(kind).name for kind in (*ALWAYS_READ, *reads(plugin))}
    assert waited_for <= watched | {Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD, Resource.WILDCARD}


def test_services_are_looked_at_only_for_default_constraints() -> None:
    def spread(args: str) -> set[type]:
        body = f"profiles: [{{pluginConfig: [{{name: PodTopologySpread, args: {args}}}]}}]"
        return reads("PodTopologySpread", body)

    own = "{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}"
    assert Service in spread("{}")
    assert Service in spread(f"{{defaultingType: List, defaultConstraints: [{own}]}}")
    assert not spread("{defaultingType: List}")


def test_devices_are_counted_only_where_they_score() -> None:
    assert reads("NodeResourcesFit", "") == {DeviceClass}
    assert reads("NodeResourcesBalancedAllocation", "") == set()
    assert reads("NodeResourcesFit") == {DeviceClass, ResourceSlice, ResourceClaim}
    assert reads("NodeResourcesBalancedAllocation") == {DeviceClass, ResourceSlice, ResourceClaim}


def test_what_no_profile_enables_is_not_looked_at() -> None:
    basics = "{disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}"
    assert kinds_read(plans(f"profiles: [{{plugins: {{multiPoint: {basics}}}}}]")) == {}


def test_nodes_and_pods_always_are() -> None:
    assert Pod in ALWAYS_READ
    assert [kind_of_record(kind).plural for kind in ALWAYS_READ] == ["nodes", "pods"]
