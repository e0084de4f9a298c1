"""Who speaks of a pod: matchers, and the index that finds them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan.cluster.matching import AllOf, MatcherIndex, SelectedPods, anchor_of
from stowplan.objects import EVERYTHING, NOTHING, LabelSelector, compile_selector, intern_labels
from stowplan.objects.meta import LabelSelectorRequirement

SELECTORS = [
    EVERYTHING,
    NOTHING,
    *(
        compile_selector(LabelSelector(match_labels=labels, match_expressions=expressions))
        for labels in ({}, {"app": "a"}, {"app": "b", "tier": "x"})
        for expressions in (
            (LabelSelectorRequirement(key="tier", operator="In", values=("x", "y")),),
            (LabelSelectorRequirement(key="app", operator="NotIn", values=("a",)),),
            (LabelSelectorRequirement(key="tier", operator="Exists"),),
        )
    ),
]
spaces = st.none() | st.frozensets(st.sampled_from(["s", "t"]))
matchers = st.builds(SelectedPods, spaces, st.sampled_from(SELECTORS))
labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b", "x", "y"])).map(
    intern_labels
)


def test_an_anchor_is_a_label_with_the_only_value_allowed() -> None:
    assert anchor_of(compile_selector(LabelSelector(match_labels={"app": "a"}))) == ("app", "a")
    assert anchor_of(EVERYTHING) is None
    two = LabelSelectorRequirement(key="app", operator="In", values=("a", "b"))
    assert anchor_of(compile_selector(LabelSelector(match_expressions=(two,)))) is None


@given(st.lists(matchers, min_size=1, max_size=3).map(tuple), st.sampled_from(["s", "t", "u"]), labels)
def test_all_of_matches_what_every_part_matches_and_promises_no_less(
    parts: tuple[SelectedPods, ...], space: str, held: dict[str, str]
) -> None:
    both = AllOf(parts)
    matched = all(part.matches(space, intern_labels(held)) for part in parts)
    assert both.matches(space, intern_labels(held)) == matched
    if matched:
        assert both.namespaces is None or space in both.namespaces
        assert both.anchor is None or both.anchor in held.items()


@given(
    st.lists(matchers, max_size=8, unique=True),
    st.data(),
    st.sampled_from(["s", "t", "u"]),
    labels,
)
def test_the_index_finds_every_matcher_that_is_still_there(
    all_matchers: list[SelectedPods], data: st.DataObject, space: str, held: dict[str, str]
) -> None:
    index: MatcherIndex[SelectedPods] = MatcherIndex()
    for matcher in all_matchers:
        index.add(matcher, matcher.namespaces, matcher.anchor)
    gone = data.draw(st.sets(st.sampled_from(all_matchers))) if all_matchers else set()
    for matcher in gone:
        index.remove(matcher, matcher.namespaces, matcher.anchor)
    found = list(index.candidates(space, intern_labels(held)))
    assert len(found) == len(set(found))
    assert not gone & set(found)
    wanted = {m for m in all_matchers if m not in gone and m.matches(space, intern_labels(held))}
    assert wanted <= set(found)
