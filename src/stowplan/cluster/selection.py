"""Which nodes a node selector selects: over columns for many nodes, over labels for one.

A selector is compiled once. A condition on a label is then judged once per distinct value of that label
in the cluster, however many nodes carry it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from stowplan.cluster.columns import Mask
from stowplan.cluster.view import Nodes
from stowplan.objects import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec

NAME_FIELD = "metadata.name"

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_PREFIX}/)?{_NAME}")
_LABEL_VALUE = re.compile(rf"(?:{_NAME})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """A term that no API server would have let through: says where and why."""


class LabelTest(NamedTuple):
    """A condition on one label."""

    key: str
    operator: str
    values: tuple[str, ...]
    bound: int = 0
    """The number that Gt and Lt compare with."""

    def accepts(self, value: str | None) -> bool:
        """Whether the condition holds for this value, None where the label is missing."""
        operator = self.operator
        if operator == "In":
            return value in self.values
        if operator == "NotIn":
            return value not in self.values
        if operator == "Exists":
            return value is not None
        if operator == "DoesNotExist":
            return value is None
        number = None if value is None else _int64(value)
        if number is None:
            return False
        return number > self.bound if operator == "Gt" else number < self.bound

    def holds(self, node: Node) -> bool:
        return self.accepts(node.labels.get(self.key))

    def mask(self, nodes: Nodes) -> Mask:
        operator = self.operator
        if operator == "In":
            return nodes.with_label_in(self.key, self.values)
        if operator == "NotIn":
            return ~nodes.with_label_in(self.key, self.values)
        if operator == "Exists":
            return nodes.label_ids(self.key) >= 0
        if operator == "DoesNotExist":
            return nodes.label_ids(self.key) < 0
        return nodes.with_label(self.key, self.accepts)


class FieldTest(NamedTuple):
    """A condition on a field. Only the name can be selected by; any other field counts as empty."""

    field: str
    value: str
    equal: bool

    def holds(self, node: Node) -> bool:
        held = node.name if self.field == NAME_FIELD else ""
        return (held == self.value) is self.equal

    def mask(self, nodes: Nodes) -> Mask:
        if self.field != NAME_FIELD:
            return np.full(len(nodes), (self.value == "") is self.equal)
        row = nodes.cluster.row_of(self.value)
        named = nodes.mask([] if row is None else [row])
        return named if self.equal else ~named


Test = LabelTest | FieldTest


class Term(NamedTuple):
    """Conditions that must all hold."""

    tests: tuple[Test, ...]

    def holds(self, node: Node) -> bool:
        return all(test.holds(node) for test in self.tests)

    def mask(self, nodes: Nodes) -> Mask:
        masks = [test.mask(nodes) for test in self.tests]
        return np.logical_and.reduce(masks) if len(masks) > 1 else masks[0]


class Selection(NamedTuple):
    """A compiled selector: one of the terms must hold, and all of the exact labels."""

    terms: tuple[Term, ...] | None
    """None: any node; an empty tuple: no node."""
    exact: tuple[LabelTest, ...] = ()

    def holds(self, node: Node) -> bool:
        for test in self.exact:
            if not test.holds(node):
                return False
        return self.terms is None or any(term.holds(node) for term in self.terms)

    def mask(self, nodes: Nodes) -> Mask:
        masks = [test.mask(nodes) for test in self.exact]
        if self.terms is not None:
            either = [term.mask(nodes) for term in self.terms]
            masks.append(np.logical_or.reduce(either) if either else np.zeros(len(nodes), np.bool_))
        if not masks:
            return np.ones(len(nodes), np.bool_)
        return np.logical_and.reduce(masks) if len(masks) > 1 else masks[0]


def matching(nodes: Nodes, selector: NodeSelector) -> Mask:
    """The nodes that the selector selects. Terms that cannot be understood select none, as upstream has it."""
    return compile_selector(selector).mask(nodes)


def required_selection(spec: PodSpec) -> Selection | None:
    """The nodes that a pod's `nodeSelector` and required node affinity allow; None when it may be anywhere."""
    if spec.affinity is None and not spec.node_selector:
        return None
    try:
        return _required[spec]
    except KeyError:
        found = _required[spec] = _compile_required(spec)
        return found


_required: WeakKeyDictionary[PodSpec, Selection | None] = WeakKeyDictionary()


def _compile_required(spec: PodSpec) -> Selection | None:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    exact = tuple(LabelTest(key, "In", (value,)) for key, value in (spec.node_selector or {}).items())
    if required is not None:
        return Selection(compile_selector(required).terms, exact)
    return Selection(None, exact) if exact else None


@lru_cache(maxsize=4096)
def compile_selector(selector: NodeSelector) -> Selection:
    """The selector without its empty terms and those that cannot be understood: they select no node."""
    terms = []
    for term in selector.node_selector_terms:
        try:
            terms.append(compile_term(term))
        except SelectorError:
            continue
    return Selection(tuple(term for term in terms if term is not None))


def compile_term(term: NodeSelectorTerm, path: str = "") -> Term | None:
    """The term, None when it is empty (and so selects nothing)."""
    tests: list[Test] = []
    for number, requirement in enumerate(term.match_expressions):
        tests.append(_label_test(requirement, f"{path}matchExpressions[{number}]"))
    for number, requirement in enumerate(term.match_fields):
        tests.append(_field_test(requirement, f"{path}matchFields[{number}]"))
    return Term(tuple(tests)) if tests else None


def selector_problems(selector: NodeSelector, path: str = "") -> list[str]:
    """What is wrong with the terms of a selector, for those who must refuse a wrong one."""
    problems = []
    for number, term in enumerate(selector.node_selector_terms):
        try:
            compile_term(term, f"{path}nodeSelectorTerms[{number}].")
        except SelectorError as error:
            problems.append(str(error))
    return problems


def _label_test(requirement: NodeSelectorRequirement, path: str) -> LabelTest:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in _OPERATORS:
        raise SelectorError(f'{path}.operator: "{operator}" is none of {", ".join(_OPERATORS)}')
    if _LABEL_KEY.fullmatch(key) is None:
        raise SelectorError(f'{path}.key: "{key}" is not a label key')
    for value in values:
        if _LABEL_VALUE.fullmatch(value) is None:
            raise SelectorError(f'{path}.values: "{value}" is not a label value')
    if operator in ("In", "NotIn") and not values:
        raise SelectorError(f"{path}.values: {operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise SelectorError(f"{path}.values: {operator} takes no values")
    if operator not in ("Gt", "Lt"):
        return LabelTest(key, operator, values)
    bound = _int64(values[0]) if len(values) == 1 else None
    if bound is None:
        raise SelectorError(f"{path}.values: {operator} needs exactly one value, an integer")
    return LabelTest(key, operator, values, bound)


def _field_test(requirement: NodeSelectorRequirement, path: str) -> FieldTest:
    if requirement.operator not in ("In", "NotIn"):
        raise SelectorError(f'{path}.operator: "{requirement.operator}" is none of In, NotIn')
    if len(requirement.values) != 1:
        raise SelectorError(f"{path}.values: exactly one value is needed")
    return FieldTest(requirement.key, requirement.values[0], requirement.operator == "In")


def _int64(text: str) -> int | None:
    """The number in a label value as Go reads it, None when it is none or does not fit 64 bits."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
