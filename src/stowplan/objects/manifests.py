"""YAML text to plain data, read as Kubernetes reads it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import yaml

from stowplan.objects.base import ObjectError

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML without libyaml: the same, slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(_SafeLoader):
    """Leaves times as text, makes keys strings, and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            if isinstance(key_node, yaml.ScalarNode) and key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'key "{key_node.value}" is given twice', key_node.start_mark
                )
            seen.add(str(key_node.value))
        self.flatten_mapping(node)
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                key_node.tag = _TEXT
        return super().construct_mapping(node, deep=deep)


def _unknown_tag(_: _Loader, node: yaml.Node) -> Any:
    # The tag itself is not shown: it may be a password that begins with an exclamation mark.
    problem = "what begins with ! is a tag, and this one is not known: text belongs in quotes"
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.add_constructor(None, _unknown_tag)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
}


def load_documents(text: str | bytes) -> Iterator[Mapping[str, Any]]:
    """The documents of a YAML text that are not empty; each must be a mapping."""
    try:
        for document in yaml.load_all(text, Loader=_Loader):
            if document is None:
                continue
            if not isinstance(document, Mapping):
                raise ObjectError(f"YAML: a document is {type(document).__name__}, not an object")
            yield document
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ObjectError(f"YAML: {line}{error.problem or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        if isinstance(error, ObjectError):
            raise
        raise ObjectError(f"YAML: {' '.join(str(error).split())}") from None
