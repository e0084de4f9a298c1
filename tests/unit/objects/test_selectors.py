import copy
import gc
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects import LabelSelector, NodeSelector, PreferredSchedulingTerm, Taint, Toleration
from stowplan.objects.selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    any_term_matches,
    compile_node_selector,
    compile_preferred_terms,
    compile_selector,
    find_untolerated,
    selector_from_labels,
    tolerates,
    topology_matches,
)
from stowplan.objects.storage import TopologySelectorTerm

KEYS, VALUES = ("a", "b", "c"), ("1", "2", "x")
labels_strategy = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


def selector(labels: dict[str, str] | None = None, *expressions: tuple[str, str, list[str]]) -> LabelSelector:
    written = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    return msgspec.convert({"matchLabels": labels or {}, "matchExpressions": written}, LabelSelector)


def terms(*written: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": written}, NodeSelector)


def on_label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def on_name(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


# ---------------------------------------------------------------- label selectors


def test_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert compile_selector(None) is NOTHING
    assert compile_selector(LabelSelector()) is EVERYTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({"a": "1"})
    assert (EVERYTHING.empty, NOTHING.empty) == (True, False)


@pytest.mark.parametrize(
    ("operator", "values", "selected"),
    [
        ("In", ["1", "2"], {"1", "2"}),
        ("In", [""], {""}),
        ("NotIn", ["1"], {None, "2", "", "x"}),
        ("Exists", [], {"1", "2", "", "x"}),
        ("DoesNotExist", [], {None}),
    ],
)
def test_operators_on_labels(operator: str, values: list[str], selected: set[str | None]) -> None:
    compiled = compile_selector(selector(None, ("a", operator, values)))
    for value in ("1", "2", "", "x", None):
        assert compiled.matches({} if value is None else {"a": value}) is (value in selected)


def test_all_conditions_must_hold() -> None:
    compiled = compile_selector(selector({"a": "1"}, ("b", "Exists", []), ("c", "NotIn", ["x"])))
    assert compiled.matches({"a": "1", "b": ""})
    assert not compiled.matches({"a": "2", "b": ""})
    assert not compiled.matches({"a": "1"})
    assert not compiled.matches({"a": "1", "b": "", "c": "x"})


def test_equal_selectors_are_one_object_however_they_are_written() -> None:
    first = compile_selector(selector({"a": "1", "b": "2"}, ("c", "In", ["x", "1"])))
    second = compile_selector(
        selector(None, ("c", "In", ["1", "x", "x"]), ("b", "In", ["2"]), ("a", "In", ["1"]))
    )
    assert first is second
    assert copy.deepcopy(first) is first
    assert pickle.loads(pickle.dumps(first)) is first
    assert pickle.loads(pickle.dumps(NOTHING)) is NOTHING


def test_selectors_nobody_uses_are_forgotten() -> None:
    from stowplan.objects import selectors

    compiled = compile_selector(selector({"only": "here"}))
    before = len(selectors._known)
    del compiled
    gc.collect()
    assert len(selectors._known) < before


def test_selector_from_labels_does_not_validate() -> None:
    compiled = selector_from_labels({"-odd key-": "bad value"})
    assert compiled.matches({"-odd key-": "bad value"})
    assert not compiled.matches({})
    assert selector_from_labels(None) is selector_from_labels({}) is EVERYTHING


def test_selector_can_be_narrowed_by_more_labels() -> None:
    compiled = compile_selector(selector({"a": "1"})).also({"b": "2"})
    assert compiled is compile_selector(selector({"a": "1", "b": "2"}))
    assert NOTHING.also({"a": "1"}) is NOTHING
    assert EVERYTHING.also({}) is EVERYTHING


BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345',"
    " regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NO_KEY = (
    "name part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc',"
    " regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
ALL_OPERATORS = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
NO_VALUES = "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (selector(None, ("a", "Gt", ["1"])), '"Gt" is not a valid label selector operator'),
        (selector(None, ("a", "In", [])), NO_VALUES),
        (
            selector(None, ("a", "Exists", ["1"])),
            'values: Invalid value: ["1"]: values set must be empty for exists and does not exist',
        ),
        (
            selector({"service": "{{.bad-value.}}"}),
            f'values[0][service]: Invalid value: "{{{{.bad-value.}}}}": {BAD_VALUE}',
        ),
        (selector(None, ("", "NotIn", [])), f'[key: Invalid value: "": {NO_KEY}, {NO_VALUES}]'),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_api(written: LabelSelector, words: str) -> None:
    with pytest.raises(SelectorError) as error:
        compile_selector(written)
    assert str(error.value) == words


@given(
    labels=labels_strategy,
    wanted=labels_strategy,
    expressions=st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(KEYS),
                st.sampled_from(["In", "NotIn"]),
                st.lists(st.sampled_from(VALUES), min_size=1),
            ),
            st.tuples(st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
        ),
        max_size=3,
    ),
)
def test_matching_is_the_conjunction_of_all_conditions(
    labels: dict[str, str], wanted: dict[str, str], expressions: list[tuple[str, str, list[str]]]
) -> None:
    def holds(key: str, operator: str, values: list[str]) -> bool:
        if operator in ("Exists", "DoesNotExist"):
            return (key in labels) is (operator == "Exists")
        return (labels.get(key) in values) is (operator == "In")

    expected = wanted.items() <= labels.items() and all(holds(*expression) for expression in expressions)
    assert compile_selector(selector(wanted, *expressions)).matches(labels) is expected


# ---------------------------------------------------------------- node selectors


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (on_label("cores", "Gt", "4"), True),
        (on_label("cores", "Lt", "8"), False),
        (on_label("cores", "Gt", "08"), False),
        (on_label("zone", "Gt", "1"), False),
        (on_label("missing", "Lt", "1"), False),
        (on_label("zone", "In", "a", "b"), True),
        (on_label("missing", "NotIn", "a"), True),
        (on_name("In", "n1"), True),
        (on_name("NotIn", "n1"), False),
        (on_name("In", "n1", key="metadata.uid"), False),
        (on_name("In", "", key="metadata.uid"), True),
        ({**on_label("zone", "In", "a"), **on_name("In", "n2")}, False),
        ({}, False),
    ],
)
def test_terms_of_a_node_selector(term: dict[str, Any], fits: bool) -> None:
    compiled = compile_node_selector(terms(term))
    assert any_term_matches(compiled, {"cores": "8", "zone": "a"}, "n1") is fits


def test_one_matching_term_is_enough() -> None:
    compiled = compile_node_selector(terms(on_label("zone", "In", "b"), on_name("In", "n1"), {}))
    assert any_term_matches(compiled, {"zone": "a"}, "n1")
    assert any_term_matches(compiled, {"zone": "b"}, "n2")
    assert not any_term_matches(compiled, {"zone": "a"}, "n2")
    assert not any_term_matches((), {}, "n1")


def test_fields_are_not_asked_of_something_without_a_name() -> None:
    assert any_term_matches(compile_node_selector(terms(on_name("In", "n1"))), {}, "")


@pytest.mark.parametrize(
    ("term", "field", "problem"),
    [
        (
            on_label("a", "Near", "1"),
            "matchExpressions[0].operator",
            f'Unsupported value: "Near": supported values: {ALL_OPERATORS}',
        ),
        (
            on_label("a", "Gt", "many"),
            "matchExpressions[0].values[0]",
            "Invalid value: \"many\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            on_label("a", "Lt", "1", "2"),
            "matchExpressions[0].values",
            "Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            on_name("In", "n1", "n2"),
            "matchFields[0].values",
            'Invalid value: ["n1","n2"]: must have one element',
        ),
        (
            on_name("Exists"),
            "matchFields[0].operator",
            'Unsupported value: "Exists": supported values: "In", "NotIn"',
        ),
    ],
)
def test_term_with_a_mistake_matches_no_node_and_says_why(
    term: dict[str, Any], field: str, problem: str
) -> None:
    compiled = compile_node_selector(terms(term, on_name("In", "n1")))
    assert compiled[0].problems == (f"nodeSelectorTerms[0].{field}: {problem}",)
    assert not compiled[0].matches({"a": "5"}, "n1")
    assert any_term_matches(compiled, {}, "n1")


def test_preferred_terms_that_count_must_be_right() -> None:
    def preferred(*weighted: tuple[int, dict[str, Any]]) -> list[PreferredSchedulingTerm]:
        written = [{"weight": weight, "preference": term} for weight, term in weighted]
        return msgspec.convert(written, list[PreferredSchedulingTerm])

    bad = on_label("a", "Near")
    compiled = compile_preferred_terms(preferred((0, bad), (5, {}), (3, on_label("a", "In", "1"))))
    assert [(weight, term.matches({"a": "1"}, "n")) for weight, term in compiled] == [(3, True)]
    with pytest.raises(
        SelectorError, match=r'^\[1\]\.matchExpressions\[0\]\.operator: Unsupported value: "Near"'
    ):
        compile_preferred_terms(preferred((1, on_label("a", "Exists")), (1, bad)))


def test_allowed_topologies() -> None:
    def allowed(*written: dict[str, list[str]]) -> list[TopologySelectorTerm]:
        expressions = [
            {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]}
            for term in written
        ]
        return msgspec.convert(expressions, list[TopologySelectorTerm])

    zone_a = {"zone": "a", "rack": "1"}
    assert topology_matches([], zone_a)
    assert topology_matches(allowed({"zone": ["b"]}, {"zone": ["a"], "rack": ["1", "2"]}), zone_a)
    assert not topology_matches(allowed({"zone": ["a"], "rack": ["2"]}), zone_a)
    assert not topology_matches(allowed({}), zone_a)
    assert not topology_matches(allowed({"zone": []}), zone_a)


# ---------------------------------------------------------------- tolerations


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="k", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", operator="Equal", value="v"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Equal", value="v"), True),
        (Toleration(), False),
        (Toleration(key="k", operator="Near", value="v"), False),
    ],
)
def test_tolerations(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, Taint(key="k", value="v", effect="NoSchedule")) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Lt", "10", "9", True),
        ("Lt", "10", "10", False),
        ("Gt", "-10", "-9", True),
        ("Gt", "10", "010", False),
        ("Gt", "1", "many", False),
        ("Gt", "1", "9223372036854775808", False),
    ],
)
def test_comparing_tolerations_need_their_gate(operator: str, bound: str, value: str, expected: bool) -> None:
    toleration = Toleration(key="k", operator=operator, value=bound)
    taint = Taint(key="k", value=value, effect="NoSchedule")
    assert tolerates(toleration, taint, comparisons=True) is expected
    assert not tolerates(toleration, taint)


def test_first_untolerated_taint_of_the_effects_that_matter() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    first, second = Taint(key="a", effect="NoSchedule"), Taint(key="b", effect="NoExecute")
    assert find_untolerated([soft, first, second], []) is first
    assert find_untolerated([soft, first, second], [Toleration(key="a", operator="Exists")]) is second
    assert find_untolerated([soft], []) is None
    assert find_untolerated([first, soft], [], ("PreferNoSchedule",)) is soft
