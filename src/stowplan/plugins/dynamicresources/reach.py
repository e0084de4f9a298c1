"""From which nodes a device can be used."""

from __future__ import annotations

from functools import lru_cache

from stowplan.objects import Node
from stowplan.objects.meta import NodeSelector
from stowplan.objects.selectors import NodeTerm, any_term_matches, compile_node_selector


class ReachError(ValueError):
    """A node selector that means nothing."""


@lru_cache(maxsize=4096)
def compiled_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """The compiled terms of a node selector; one with a mistake is refused as a whole."""
    terms = compile_node_selector(selector)
    problems = [problem for term in terms for problem in term.problems]
    if problems:
        raise ReachError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return terms


def reaches(node: Node, node_name: str, all_nodes: bool, selector: NodeSelector | None) -> bool:
    """Whether something that is on one node, on all or on selected ones is on this node."""
    if node_name:
        return node.name == node_name
    if all_nodes:
        return True
    return selector is not None and any_term_matches(compiled_terms(selector), node.labels, node.name)
