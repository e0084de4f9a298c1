from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.plugins.dynamicresources.celsyntax import CELSyntaxError, rewrite


def test_plain_cel_stays_as_it_is() -> None:
    expression = (
        'device.driver == "d" && !(device.attributes["d"].n + 1 >= -2.5e3) || x ? 1 : [2, {"a": 3}.a]'
    )
    assert rewrite(expression).source.replace(" ", "") == expression.replace(" ", "")


def test_optional_selections_become_calls() -> None:
    assert rewrite("a.?b").source == 'stowplanSelect(a, "b")'
    assert rewrite("a[?k].c").source == 'stowplanSelect(stowplanSelect(a, k), "c")'
    assert rewrite("a.?b.value().c").source == 'stowplanSelect(a, "b").value().c'


def test_what_is_fallen_back_on_is_looked_at_only_then() -> None:
    either = "[stowplanItems(a)].map(stowplanFound, stowplanFound.size() > 0 ? stowplanFound"
    assert rewrite("a.orValue(f(1)).c").source == f"{either}[0] : f(1))[0].c"
    assert rewrite("a.or(b).?c").source == (
        f'stowplanSelect(stowplanFirst({either} : stowplanItems(b))[0]), "c")'
    )


def test_functions_that_the_library_has_otherwise_get_other_names() -> None:
    assert rewrite("size(a) + a.size()").source == "stowplanSize(a) + a.stowplanSize()"
    assert rewrite("string(a) + int(b)").source == "string(stowplanText(a)) + int(stowplanSeconds(b))"


def test_bind_becomes_a_map_over_one_value() -> None:
    assert rewrite("cel.bind(x, f(1, 2), x.y)").source == "[f(1 , 2)].map(x, x.y)[0]"


def test_opt_map_and_opt_flat_map_become_maps() -> None:
    assert rewrite("a.?b.optMap(v, v + 1)").source == (
        'stowplanFirst(stowplanItems(stowplanSelect(a, "b")).map(v, v + 1))'
    )
    assert rewrite("a.?b.optFlatMap(v, v.?c)").source == (
        'stowplanFlatten(stowplanItems(stowplanSelect(a, "b")).map(v, stowplanItems(stowplanSelect(v, "c"))))'
    )


def test_literal_domains_and_names_are_known() -> None:
    rewritten = rewrite('device.attributes["a.com"].x == 1 && has(device.capacity.b.y)')
    assert rewritten.domains == {"a.com", "b"}
    assert {"x", "y"} <= rewritten.names
    assert rewritten.closed


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["d"].exists(k, k == "x")',
        "device.attributes[device.driver].x == 1",
        'cel.bind(d, device.attributes["d"], d.x)',
        'device.attributes["d"][device.driver]',
        "size(device.attributes) == 2",
        "f(device)",
        'x in device.attributes["d"]',
        'device.attributes["d"]["x\\n"] == 1',
    ],
)
def test_expressions_that_may_read_more_than_they_name_are_not_closed(expression: str) -> None:
    assert not rewrite(expression).closed


def test_asking_for_a_literal_name_keeps_an_expression_closed() -> None:
    assert rewrite('"x" in device.attributes["d"]').closed


def test_a_map_of_domains_used_as_a_whole_is_looked_up_by_function() -> None:
    rewritten = rewrite('"d" in device.attributes && device.attributes["d"].x')
    assert rewritten.whole_maps
    assert rewritten.source == '"d" in device.attributes && stowplanDomain(device.attributes, "d").x'


def test_quotes_and_comments_hide_what_they_hold() -> None:
    rewritten = rewrite("r'a.?b' == 'cel.bind(' // .?c\n")
    assert rewritten.source == "r'a.?b' == 'cel.bind('"


@pytest.mark.parametrize(
    "expression", ["f(", "a)", "[1", "{", "cel.bind(x, 1)", "a.?b.optMap(v)", "cel.bind(x, 1, 2"]
)
def test_unbalanced_brackets_and_wrong_macros_are_errors(expression: str) -> None:
    with pytest.raises(CELSyntaxError):
        rewrite(expression)


@settings(max_examples=300)
@given(st.text(alphabet="ab.?[](){}\"' ,:&|!=<>0/\\cel.bind", max_size=40))
def test_any_text_is_rewritten_or_refused(text: str) -> None:
    with contextlib.suppress(CELSyntaxError):
        rewrite(text)
