"""Plugins are found by their entry points; what cannot be registered is said clearly."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from stowplan.cluster import NodeRow
from stowplan.framework import CycleState, FilterPlugin, Plugin, ReservePlugin, registry
from stowplan.framework.points import POINTS
from stowplan.framework.registry import ENTRY_POINT_GROUP, RegistryError, discover, register
from stowplan.objects import Pod


class One(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> None:
        return None


class AnotherOne(One):
    name = "One"


class Misspelt(FilterPlugin):
    def filter_nodes(self, state: CycleState, pod: Pod, node: NodeRow) -> None:
        return None


class ForgetsToUndo(ReservePlugin):
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None


class Pointless(Plugin):
    pass


NOT_A_PLUGIN = object()


def announce(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    found = [EntryPoint("x", value, ENTRY_POINT_GROUP) for value in values]

    def fake(*, group: str) -> Any:
        assert group == "stowplan.plugins"
        return found

    monkeypatch.setattr(registry, "entry_points", fake)


def test_announced_plugins_are_added_to_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, f"{__name__}:One")
    assert list(discover({"Known": One})) == ["Known", "One"]


def test_two_plugins_of_one_name_are_an_error_that_names_both() -> None:
    with pytest.raises(RegistryError, match=r"AnotherOne: the name One is taken by .*\.One"):
        register([One, AnotherOne])


def test_a_class_without_extension_points_is_an_error() -> None:
    with pytest.raises(RegistryError, match="Pointless serves no extension point"):
        register([Pointless])


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        (Misspelt, "Misspelt is a FilterPlugin and has no method filter_node or filter of its own"),
        (ForgetsToUndo, "ForgetsToUndo is a ReservePlugin and has no method unreserve of its own"),
    ],
)
def test_a_plugin_that_would_not_answer_at_its_point_is_an_error(
    plugin: type[Plugin], complaint: str
) -> None:
    with pytest.raises(RegistryError, match=complaint):
        register([plugin])


def test_every_extension_point_asks_for_a_method() -> None:
    for point, base in POINTS.items():
        with pytest.raises(RegistryError, match=f"is a {base.__name__} and has no method"):
            register([type(point, (base,), {})])


def test_an_entry_point_that_cannot_be_imported_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announce(monkeypatch, "no_such_package.plugins:One")
    with pytest.raises(RegistryError, match=r"x = no_such_package\.plugins:One: cannot be imported"):
        discover({})


def test_an_entry_point_that_is_no_plugin_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, f"{__name__}:NOT_A_PLUGIN")
    with pytest.raises(RegistryError, match="is not a class derived from"):
        discover({})


class TakesAnything(One):
    class Args:
        most = 1


class Numbered(One):
    name = 1  # type: ignore[assignment]


class Everything(One):
    name = "*"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (NOT_A_PLUGIN, "is not a class derived from stowplan.framework.Plugin"),
        (CycleState, "CycleState'> is not a class derived from stowplan.framework.Plugin"),
        (Numbered, "Numbered: 1 cannot be the name of a plugin"),
        (Everything, r"Everything: '\*' cannot be the name of a plugin"),
        (TakesAnything, "TakesAnything: Args is not a class derived from stowplan.framework.PluginArgs"),
    ],
)
def test_what_is_given_to_a_test_must_be_a_plugin_with_args(given: Any, complaint: str) -> None:
    with pytest.raises(RegistryError, match=complaint):
        register([given])
