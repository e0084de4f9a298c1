"""What selects what: labels by selectors, nodes by terms, taints by tolerations.

Selectors are compiled once and shared: equal ones are the same object, so that a selector can key
whatever is remembered about it, and ten thousand replicas with one selector ask one question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from stowplan.objects.meta import LabelSelector, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.objects.names import label_key_problem, label_value_problem

if TYPE_CHECKING:
    from stowplan.objects.pod import PodSpec, PreferredSchedulingTerm
    from stowplan.objects.storage import TopologySelectorTerm

LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*LABEL_OPERATORS, "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


class SelectorError(ValueError):
    """A selector that means nothing, in the API's words."""


class Requirement(NamedTuple):
    """A condition on the value of one label; None stands for a label that is absent."""

    key: str
    operator: str
    values: tuple[str, ...]

    def accepts(self, value: str | None) -> bool:
        """Whether the condition holds for a label with this value."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None:
            return False
        number, bound = _int64(value), _int64(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


class Selector:
    """Conditions on labels that must all hold. Equal selectors are one object; compare them by identity."""

    __slots__ = ("__weakref__", "_exact", "_others", "requirements", "selects_nothing")

    def __init__(self, requirements: tuple[Requirement, ...], selects_nothing: bool = False) -> None:
        self.requirements = requirements
        self.selects_nothing = selects_nothing
        exact = [r for r in requirements if r.operator == "In" and len(r.values) == 1]
        self._exact = tuple((r.key, r.values[0]) for r in exact)
        self._others = tuple(r for r in requirements if r not in exact)

    @property
    def empty(self) -> bool:
        """Whether everything is selected."""
        return not self.requirements and not self.selects_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all conditions hold for these labels."""
        if self.selects_nothing:
            return False
        get = labels.get
        for key, value in self._exact:
            if get(key) != value:
                return False
        return all(requirement.accepts(get(requirement.key)) for requirement in self._others)

    def also(self, labels: Mapping[str, str]) -> Selector:
        """This selector, narrowed to objects that have these labels too."""
        if self.selects_nothing or not labels:
            return self
        return _interned([*self.requirements, *_requirements_of(labels)])

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.requirements, self.selects_nothing)

    def __repr__(self) -> str:
        if self.selects_nothing:
            return "Selector(nothing)"
        return f"Selector({', '.join(map(_text_of, self.requirements)) or 'everything'})"


NOTHING = Selector((), selects_nothing=True)
EVERYTHING = Selector(())
_known: WeakValueDictionary[tuple[Requirement, ...], Selector] = WeakValueDictionary()


def compile_selector(selector: LabelSelector | None) -> Selector:
    """The meaning of a label selector: absent selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = []
    for key, value in sorted(selector.match_labels.items()):
        _raise_first(_requirement_problems("In", key, (value,), ""))
        requirements.append(Requirement(key, "In", (value,)))
    for expression in selector.match_expressions:
        if expression.operator not in LABEL_OPERATORS:
            raise SelectorError(f"{json.dumps(expression.operator)} is not a valid label selector operator")
        _raise_first(_requirement_problems(expression.operator, expression.key, expression.values, ""))
        requirements.append(_canonical(expression.key, expression.operator, expression.values))
    return _interned(requirements)


def selector_from_labels(labels: Mapping[str, str] | None) -> Selector:
    """Selects what has all these labels (as services and node selectors do); without any, everything."""
    return _interned(_requirements_of(labels or {}))


def _requirements_of(labels: Mapping[str, str]) -> list[Requirement]:
    return [Requirement(key, "In", (value,)) for key, value in labels.items()]


def _interned(requirements: Iterable[Requirement]) -> Selector:
    content = tuple(sorted(set(requirements)))
    if not content:
        return EVERYTHING
    known = _known.get(content)
    if known is None:
        known = _known[content] = Selector(content)
    return known


def _restored(requirements: tuple[Requirement, ...], selects_nothing: bool) -> Selector:
    return NOTHING if selects_nothing else _interned(requirements)


def _canonical(key: str, operator: str, values: Iterable[str]) -> Requirement:
    return Requirement(key, operator, tuple(sorted(set(values))))


def _text_of(requirement: Requirement) -> str:
    key, operator, values = requirement
    return f"{key} {operator} {','.join(values)}".rstrip()


# ---------------------------------------------------------------- nodes


class NodeTerm:
    """One term of a node selector: conditions on labels and on the node's name that must all hold.

    A term with a mistake matches no node, and `problems` say why.
    """

    __slots__ = ("fields", "problems", "selector")

    def __init__(
        self, selector: Selector, fields: tuple[Requirement, ...], problems: tuple[str, ...] = ()
    ) -> None:
        self.selector = selector
        self.fields = fields
        self.problems = problems

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name fits."""
        return not self.problems and self.selector.matches(labels) and self.accepts_name(name)

    def accepts_name(self, name: str) -> bool:
        """Whether the conditions on fields hold; the name is the only field that nodes are selected by."""
        if not name:
            return True
        return all(field.accepts(name if field.key == "metadata.name" else "") for field in self.fields)


def compile_node_selector(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """The terms of which one must match. Terms without conditions match no node and are left out."""
    terms = enumerate(selector.node_selector_terms)
    return tuple(_node_term(term, f"nodeSelectorTerms[{i}]") for i, term in terms if _has_conditions(term))


def any_term_matches(terms: Iterable[NodeTerm], labels: Mapping[str, str], name: str) -> bool:
    """Whether a node fits at least one of the terms."""
    return any(term.matches(labels, name) for term in terms)


def compile_preferred_terms(
    preferred: Sequence[PreferredSchedulingTerm],
) -> tuple[tuple[int, NodeTerm], ...]:
    """Weights and terms of a node preference; SelectorError if any that counts has a mistake."""
    compiled = [
        (choice.weight, _node_term(choice.preference, f"[{i}]"))
        for i, choice in enumerate(preferred)
        if choice.weight and _has_conditions(choice.preference)
    ]
    _raise_first([problem for _, term in compiled for problem in term.problems])
    return tuple(compiled)


class RequiredNodeAffinity(NamedTuple):
    """What a pod demands of its node's labels and name: a selector, and terms of which one must match."""

    selector: Selector
    terms: tuple[NodeTerm, ...] | None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name will do."""
        if not self.selector.matches(labels):
            return False
        return self.terms is None or any_term_matches(self.terms, labels, name)


def required_node_affinity(spec: PodSpec) -> RequiredNodeAffinity:
    """What `nodeSelector` and required node affinity of a pod demand together."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    terms = compile_node_selector(required) if required is not None else None
    return RequiredNodeAffinity(selector_from_labels(spec.node_selector), terms)


def topology_matches(terms: Sequence[TopologySelectorTerm], labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is in the allowed topologies; none given allows all."""
    if not terms:
        return True
    return any(
        term.match_label_expressions
        and all(
            not _requirement_problems("In", wanted.key, wanted.values, "")
            and labels.get(wanted.key) in wanted.values
            for wanted in term.match_label_expressions
        )
        for term in terms
    )


def _has_conditions(term: NodeSelectorTerm) -> bool:
    return bool(term.match_expressions or term.match_fields)


def _node_term(term: NodeSelectorTerm, path: str) -> NodeTerm:
    problems: list[str] = []
    requirements = []
    for i, expression in enumerate(term.match_expressions):
        where = f"{path}.matchExpressions[{i}]"
        if expression.operator not in NODE_OPERATORS:
            problems.append(_unsupported(where, expression, NODE_OPERATORS))
        else:
            problems += _requirement_problems(
                expression.operator, expression.key, expression.values, f"{where}."
            )
            requirements.append(_canonical(expression.key, expression.operator, expression.values))
    for i, field in enumerate(term.match_fields):
        where = f"{path}.matchFields[{i}]"
        if field.operator not in FIELD_OPERATORS:
            problems.append(_unsupported(where, field, FIELD_OPERATORS))
        elif len(field.values) != 1:
            problems.append(_invalid(f"{where}.values", field.values, "must have one element"))
    if problems:
        return NodeTerm(NOTHING, (), tuple(problems))
    fields = tuple(Requirement(field.key, field.operator, field.values) for field in term.match_fields)
    return NodeTerm(_interned(requirements), fields)


# ---------------------------------------------------------------- mistakes


def _requirement_problems(operator: str, key: str, values: Sequence[str], path: str) -> list[str]:
    problems = []
    if problem := label_key_problem(key):
        problems.append(_invalid(f"{path}key", key, problem))
    if operator in ("In", "NotIn") and not values:
        reason = "for 'in', 'notin' operators, values set can't be empty"
        problems.append(_invalid(f"{path}values", values, reason))
    elif operator in ("Exists", "DoesNotExist") and values:
        reason = "values set must be empty for exists and does not exist"
        problems.append(_invalid(f"{path}values", values, reason))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            reason = "for 'Gt', 'Lt' operators, exactly one value is required"
            problems.append(_invalid(f"{path}values", values, reason))
        problems += [
            _invalid(f"{path}values[{i}]", v, "for 'Gt', 'Lt' operators, the value must be an integer")
            for i, v in enumerate(values)
            if _int64(v) is None
        ]
    for i, v in enumerate(values):
        if problem := label_value_problem(v):
            problems.append(_invalid(f"{path}values[{i}][{key}]", v, problem))
    return problems


def _invalid(path: str, value: str | Sequence[str], reason: str) -> str:
    shown = json.dumps(value if value or value == "" else None, ensure_ascii=False, separators=(",", ":"))
    return f"{path}: Invalid value: {shown}: {reason}"


def _unsupported(path: str, expression: NodeSelectorRequirement, operators: tuple[str, ...]) -> str:
    supported = ", ".join(f'"{operator}"' for operator in operators)
    shown = json.dumps(expression.operator, ensure_ascii=False)
    return f"{path}.operator: Unsupported value: {shown}: supported values: {supported}"


def _raise_first(problems: list[str]) -> None:
    """Raise what is wrong, if anything: one problem as it is, several in brackets."""
    different = list(dict.fromkeys(problems))
    if different:
        raise SelectorError(different[0] if len(different) == 1 else f"[{', '.join(different)}]")


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 4000:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


# ---------------------------------------------------------------- taints


class AnyTaint(Protocol):
    """What nodes' and devices' taints have in common."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class AnyToleration(AnyTaint, Protocol):
    """What pods' and devices' tolerations have in common."""

    @property
    def operator(self) -> str: ...


TaintT = TypeVar("TaintT", bound=AnyTaint)


def tolerates(toleration: AnyToleration, taint: AnyTaint, *, comparisons: bool = False) -> bool:
    """Whether a toleration lets its pod live with a taint.

    `comparisons` is the feature gate TaintTolerationComparisonOperators; without it Lt and Gt match nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparisons:
            return _compares(toleration, taint)
    return False


def _compares(toleration: AnyToleration, taint: AnyTaint) -> bool:
    if not (_PLAIN_INTEGER.fullmatch(toleration.value) and _PLAIN_INTEGER.fullmatch(taint.value)):
        return False
    bound, number = _int64(toleration.value), _int64(taint.value)
    if bound is None or number is None:
        return False
    return number < bound if toleration.operator == "Lt" else number > bound


def find_untolerated(
    taints: Iterable[TaintT],
    tolerations: Sequence[AnyToleration],
    effects: tuple[str, ...] = ("NoSchedule", "NoExecute"),
    *,
    comparisons: bool = False,
) -> TaintT | None:
    """The first taint with one of the effects that no toleration tolerates."""
    for taint in taints:
        if taint.effect in effects and not any(
            tolerates(toleration, taint, comparisons=comparisons) for toleration in tolerations
        ):
            return taint
    return None
