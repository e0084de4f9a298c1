"""From which nodes something can be reached: a volume, a class's topology, a pool of storage.

The usual forms, anywhere and "label in these values", are recognised: thousands of local volumes, each on
its own host, are then looked up by the host's label instead of being matched against every node.
"""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakValueDictionary

import numpy as np

from stowplan.cluster import Mask, Nodes
from stowplan.cluster.selection import labels_mask
from stowplan.objects import (
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Selector,
    SelectorError,
    compile_node_selector,
    compile_selector,
)
from stowplan.objects.storage import TopologySelectorTerm


class Reach:
    """Nodes with labels that one of the selectors selects. Equal ones are one object."""

    __slots__ = ("__weakref__", "key", "selectors", "values")

    def __init__(self, selectors: tuple[Selector, ...]) -> None:
        self.selectors = selectors
        self.key: str | None = None
        """The label, when the condition is just that it has one of `values`."""
        self.values: tuple[str, ...] = ()
        if len(selectors) == 1 and len(selectors[0].requirements) == 1:
            only = selectors[0].requirements[0]
            if only.operator == "In":
                self.key, self.values = only.key, only.values

    @property
    def anywhere(self) -> bool:
        return self is ANYWHERE

    def mask(self, nodes: Nodes) -> Mask:
        masks = [labels_mask(nodes, selector) for selector in self.selectors]
        if len(masks) == 1:
            return masks[0]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(nodes), np.bool_)


ANYWHERE = Reach((compile_selector(LabelSelector()),))
_known: WeakValueDictionary[tuple[Selector, ...], Reach] = WeakValueDictionary()


def _reach(selectors: tuple[Selector, ...]) -> Reach:
    if any(selector.empty for selector in selectors):
        return ANYWHERE
    known = _known.get(selectors)
    if known is None:
        known = _known[selectors] = Reach(selectors)
    return known


@lru_cache(maxsize=8192)
def volume_reach(affinity: NodeSelector | None) -> Reach:
    """The nodes that a volume's node affinity selects. Its conditions on fields count for nothing: upstream
    asks them of a node without a name, and for that one they always hold."""
    if affinity is None:
        return ANYWHERE
    terms = compile_node_selector(affinity)
    return _reach(tuple(term.selector for term in terms if not term.problems))


@lru_cache(maxsize=1024)
def topology_reach(topologies: tuple[TopologySelectorTerm, ...]) -> Reach:
    """The nodes that a storage class allows volumes for: all, unless it says otherwise."""
    if not topologies:
        return ANYWHERE
    terms = tuple(
        NodeSelectorTerm(
            match_expressions=tuple(
                NodeSelectorRequirement(key=wanted.key, operator="In", values=wanted.values)
                for wanted in topology.match_label_expressions
            )
        )
        for topology in topologies
    )
    return volume_reach(NodeSelector(node_selector_terms=terms))


def label_reach(selector: LabelSelector | None) -> Reach:
    """The nodes whose labels a selector selects: none without a selector, or with one that makes no sense."""
    if selector is None:
        return _reach(())
    try:
        return _reach((compile_selector(selector),))
    except SelectorError:
        return _reach(())
