"""What PodTopologySpread can be told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.plugins.podtopologyspread import PodTopologySpreadArgs

GOOD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


def problems(**args: Any) -> list[str]:
    given = msgspec.convert(args, PodTopologySpreadArgs).completed()
    return [path for path, _ in given.problems()]


def test_defaults_are_the_systems() -> None:
    assert problems() == []
    assert PodTopologySpreadArgs().defaulting_type == "System"
    assert (
        msgspec.convert({"defaultingType": ""}, PodTopologySpreadArgs).completed().defaulting_type == "System"
    )


def test_a_good_list_has_no_problems() -> None:
    hard = {**GOOD, "whenUnsatisfiable": "DoNotSchedule"}
    assert problems(defaultingType="List", defaultConstraints=[GOOD, hard]) == []
    assert problems(defaultingType="List") == []


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"maxSkew": 0}, "defaultConstraints[0].maxSkew"),
        ({"topologyKey": ""}, "defaultConstraints[0].topologyKey"),
        ({"topologyKey": "not a key"}, "defaultConstraints[0].topologyKey"),
        ({"whenUnsatisfiable": ""}, "defaultConstraints[0].whenUnsatisfiable"),
        ({"whenUnsatisfiable": "Never"}, "defaultConstraints[0].whenUnsatisfiable"),
        ({"labelSelector": {"matchLabels": {"app": "a"}}}, "defaultConstraints[0].labelSelector"),
    ],
)
def test_a_wrong_constraint_is_named(wrong: dict[str, Any], path: str) -> None:
    assert problems(defaultingType="List", defaultConstraints=[{**GOOD, **wrong}]) == [path]


def test_a_repeated_constraint_is_named() -> None:
    assert problems(defaultingType="List", defaultConstraints=[GOOD, {**GOOD, "maxSkew": 5}]) == [
        "defaultConstraints[1]"
    ]


def test_constraints_need_the_list_type() -> None:
    assert problems(defaultConstraints=[GOOD]) == ["defaultingType"]
    assert problems(defaultingType="Both") == ["defaultingType"]
