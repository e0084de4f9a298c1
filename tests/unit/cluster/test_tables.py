"""Tables of objects: finding them, and what has changed."""

from __future__ import annotations

import pytest

from stowplan.cluster.tables import ObjectTable
from stowplan.objects import PersistentVolume
from stowplan.testing.builders import make_object


def volume(name: str) -> PersistentVolume:
    return make_object(PersistentVolume, name)


def test_what_changed_since_a_version() -> None:
    table: ObjectTable[PersistentVolume] = ObjectTable()
    table.put(volume("a"))
    before = table.version
    assert table.changed_since(before) == set()
    table.put(volume("b"))
    table.put(volume("b"))
    table.pop("a")
    table.pop("unknown")
    assert table.changed_since(before) == {"a", "b"}
    assert table.changed_since(table.version - 1) == {"a"}


def test_changes_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.cluster.tables._KEEP", 2)
    table: ObjectTable[PersistentVolume] = ObjectTable()
    for name in "abcdef":
        table.put(volume(name))
    assert table.changed_since(0) is None
    assert table.changed_since(table.version - 1) == {"f"}
    for behind in range(1, table.version + 1):
        changed = table.changed_since(table.version - behind)
        assert changed is None or changed == set("abcdef"[-behind:])
