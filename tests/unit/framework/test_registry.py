"""Plugins are found by their entry points; what cannot be registered is said clearly."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from stowplan.framework import FilterPlugin, Plugin, registry
from stowplan.framework.registry import ENTRY_POINT_GROUP, RegistryError, discover, register


class One(FilterPlugin):
    pass


class AnotherOne(FilterPlugin):
    name = "One"


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
