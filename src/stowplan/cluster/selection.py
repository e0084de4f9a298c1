"""Which nodes a node selector selects, over columns.

A condition on a label is judged once per distinct value of that label in the cluster, however many nodes
carry it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stowplan.cluster.columns import Mask
from stowplan.cluster.view import Nodes
from stowplan.objects import NodeSelector, NodeTerm, PodSpec, Requirement, Selector, compile_node_selector

NAME_FIELD = "metadata.name"


def matching(nodes: Nodes, selector: NodeSelector) -> Mask:
    """The nodes that the selector selects. Terms with a mistake select none, as upstream has it."""
    return any_term_mask(nodes, compiled(selector))


@lru_cache(maxsize=4096)
def compiled(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """The terms of a node selector, compiled once for all that are equal."""
    return compile_node_selector(selector)


def required_mask(nodes: Nodes, spec: PodSpec) -> Mask | None:
    """The nodes that a pod's `nodeSelector` and required node affinity allow; None when it may be
    anywhere. For a single node ask `spec.required_node_affinity`."""
    if spec.affinity is None and not spec.node_selector:
        return None
    required = spec.required_node_affinity
    if required.terms is None:
        return None if required.selector.empty else labels_mask(nodes, required.selector)
    chosen = any_term_mask(nodes, required.terms)
    return chosen if required.selector.empty else chosen & labels_mask(nodes, required.selector)


def any_term_mask(nodes: Nodes, terms: tuple[NodeTerm, ...]) -> Mask:
    """The nodes for which one of the terms holds."""
    if len(terms) == 1:
        return term_mask(nodes, terms[0])
    chosen = np.zeros(len(nodes), np.bool_)
    for term in terms:
        chosen |= term_mask(nodes, term)
    return chosen


def term_mask(nodes: Nodes, term: NodeTerm) -> Mask:
    """The nodes for which all conditions of a term hold."""
    if term.problems:
        return np.zeros(len(nodes), np.bool_)
    chosen = labels_mask(nodes, term.selector)
    for field in term.fields:
        chosen &= _field_mask(nodes, field)
    return chosen


def labels_mask(nodes: Nodes, selector: Selector) -> Mask:
    """The nodes whose labels the selector selects: a fresh column."""
    if selector.selects_nothing:
        return np.zeros(len(nodes), np.bool_)
    chosen: Mask | None = None
    for requirement in selector.requirements:
        holds = _label_mask(nodes, requirement)
        chosen = holds if chosen is None else chosen & holds
    return np.ones(len(nodes), np.bool_) if chosen is None else chosen


def _label_mask(nodes: Nodes, requirement: Requirement) -> Mask:
    match requirement.operator:
        case "In":
            return nodes.with_label_in(requirement.key, requirement.values)
        case "NotIn":
            return ~nodes.with_label_in(requirement.key, requirement.values)
        case "Exists":
            return nodes.label_ids(requirement.key) >= 0
        case "DoesNotExist":
            return nodes.label_ids(requirement.key) < 0
    return nodes.with_label(requirement.key, requirement.accepts)


def _field_mask(nodes: Nodes, field: Requirement) -> Mask:
    """Nodes can be selected by their name only; any other field counts as empty."""
    if field.key != NAME_FIELD:
        return np.full(len(nodes), field.accepts(""))
    row = nodes.cluster.row_of(field.values[0])
    named = nodes.mask([] if row is None else [row])
    return named if field.operator == "In" else ~named
