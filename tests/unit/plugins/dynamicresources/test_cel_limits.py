"""What selectors can do upstream and cannot do here, or the other way round: see docs/differences.md."""

from __future__ import annotations

import pytest

from stowplan.plugins.dynamicresources.cel import (
    CELCompileError,
    CELRuntimeError,
    SelectorDevice,
    compile_selector,
)

DEVICE = SelectorDevice("driver.example.com", {}, {}, shared=False)


@pytest.mark.parametrize(
    "expression",
    [
        'isIP("10.0.0.1")',
        'ip("10.0.0.1").family() == 4',
        'isCIDR("10.0.0.0/8")',
        'cidr("10.0.0.0/8").containsIP("10.1.1.1")',
        'isURL("https://example.com")',
        'url("https://example.com").getHost() == "example.com"',
        '!format.dns1123Label().validate("a").hasValue()',
        '"%d".format([1]) == "1"',
        "sets.contains([1, 2], [1])",
        "lists.range(2) == [0, 1]",
        "[2, 1].sortBy(x, x) == [1, 2]",
        'strings.quote("a") != ""',
        "[1, 2].all(place, value, place < value)",
        "[1, 2].exists(place, value, place < value)",
        "[1, 2].transformList(place, value, value) == [1, 2]",
        '{"a": 1}.transformMap(key, value, value) == {"a": 1}',
    ],
)
def test_functions_that_are_missing_are_errors_and_never_wrong_answers(expression: str) -> None:
    with pytest.raises(CELRuntimeError, match="Undefined variable or function"):
        compile_selector(expression).matches(DEVICE)


@pytest.mark.parametrize(
    "expression", ["[?optional.of(1)].size() == 1", '{?"a": optional.of(1)}.size() == 1']
)
def test_elements_that_are_there_or_not_do_not_compile(expression: str) -> None:
    with pytest.raises(CELCompileError):
        compile_selector(expression)


@pytest.mark.parametrize("expression", ["[0, 1].exists(x, 1 / x == 1)", "![0, 1].all(x, 1 / x == 2)"])
def test_an_element_that_gives_no_answer_is_outweighed_by_none(expression: str) -> None:
    with pytest.raises(CELRuntimeError, match="division by zero"):
        compile_selector(expression).matches(DEVICE)


def test_no_optional_value_can_be_bound_to_a_name() -> None:
    with pytest.raises(CELRuntimeError, match="overload"):
        compile_selector("cel.bind(a, optional.of(1), a.hasValue())").matches(DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        'quantity("3") == quantity("1").add(2)',
        'quantity("1.5Gi").isInteger() && quantity("1.5Gi").asInteger() == 1610612736',
    ],
)
def test_how_a_quantity_came_about_makes_no_difference(expression: str) -> None:
    """Upstream compares no quantity with a sum to its right, and converts only what it has parsed as an
    integer, without a fraction and not from more than some digits."""
    assert compile_selector(expression).matches(DEVICE)


def test_an_expression_may_cost_whatever_it_takes() -> None:
    """Upstream ends it at a cost of a million: this goes 262,144 times through the innermost list."""
    expression = "true"
    for level in range(6):
        expression = f"[1, 2, 3, 4, 5, 6, 7, 8].all(v{level}, {expression})"
    assert compile_selector(expression).matches(DEVICE)


def test_types_are_not_checked_beforehand() -> None:
    """Upstream does not compile these: the part that cannot be is never come to here."""
    assert compile_selector('true || 1 + "a" == 2').matches(DEVICE)
    assert compile_selector("true || unheardOf(1)").matches(DEVICE)
    assert not compile_selector('"a" == 1').matches(DEVICE)


def test_patterns_of_find_are_those_of_python() -> None:
    """Upstream has RE2 for all patterns, which looks nowhere ahead and knows classes such as \\pL."""
    assert compile_selector('"ab".find("(?=a)a") == "a"').matches(DEVICE)
    with pytest.raises(CELRuntimeError, match="look-around"):
        compile_selector('"ab".matches("(?=a)a")').matches(DEVICE)
    with pytest.raises(CELRuntimeError, match="bad escape"):
        compile_selector(r'"a".find("\\pL") == "a"').matches(DEVICE)
