"""Which plugins there are: those of this package, and those that installed packages announce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import Plugin
from stowplan.framework.points import POINTS, points_of

ENTRY_POINT_GROUP = "stowplan.plugins"
_METHODS = (
    ("preEnqueue", ("pre_enqueue",)),
    ("queueSort", ("sort_key",)),
    ("preFilter", ("pre_filter",)),
    ("filter", ("filter_node", "filter")),
    ("postFilter", ("post_filter",)),
    ("preScore", ("pre_score",)),
    ("score", ("score_node", "score")),
    ("reserve", ("reserve",)),
    ("reserve", ("unreserve",)),
    ("permit", ("permit",)),
    ("preBind", ("pre_bind",)),
    ("bind", ("bind",)),
    ("postBind", ("post_bind",)),
)
"""What a plugin must answer itself at each extension point: by one of these methods."""


class RegistryError(Exception):
    """A plugin that cannot be registered or built: says which, where it comes from, and what to do."""


Registry: TypeAlias = Mapping[str, type[Plugin]]
"""Plugin classes by name."""


def register(plugins: Iterable[type[Plugin]]) -> dict[str, type[Plugin]]:
    """Plugin classes by name; two of one name are an error."""
    registry: dict[str, type[Plugin]] = {}
    for plugin in plugins:
        _add(registry, plugin)
    return registry


def discover(known: Registry) -> dict[str, type[Plugin]]:
    """The known plugins and those that installed packages announce under `stowplan.plugins`."""
    registry = dict(known)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        _add(registry, _load(entry), f"entry point {entry.name} = {entry.value}")
    return registry


def _load(entry: EntryPoint) -> object:
    where = f"entry point {entry.name} = {entry.value}"
    try:
        plugin: object = entry.load()
    except Exception as problem:
        raise RegistryError(
            f"{where}: cannot be imported ({type(problem).__name__}: {problem}); fix or uninstall its package"
        ) from problem
    return plugin


def _add(registry: dict[str, type[Plugin]], plugin: object, where: str = "") -> None:
    if not isinstance(plugin, type) or not issubclass(plugin, Plugin):
        raise RegistryError(
            f"{where or 'plugins'}: {plugin!r} is not a class derived from stowplan.framework.Plugin"
        )
    where = where or f"{plugin.__module__}.{plugin.__qualname__}"
    name: object = plugin.name
    if not isinstance(name, str) or name in ("", "*"):
        raise RegistryError(
            f"{where}: {name!r} cannot be the name of a plugin: no configuration could name it"
        )
    args: object = plugin.Args
    if not isinstance(args, type) or not issubclass(args, PluginArgs):
        raise RegistryError(f"{where}: Args is not a class derived from stowplan.framework.PluginArgs")
    points = points_of(plugin)
    if not points:
        raise RegistryError(
            f"{where}: {plugin.name} serves no extension point; derive it from FilterPlugin, ScorePlugin, …"
        )
    for point, methods in _METHODS:
        base = POINTS[point]
        if point in points and all(getattr(plugin, name) is getattr(base, name) for name in methods):
            missing = f"has no method {' or '.join(methods)} of its own"
            raise RegistryError(f"{where}: {plugin.name} is a {base.__name__} and {missing}")
    if plugin.name in registry:
        other = registry[plugin.name]
        raise RegistryError(
            f"{where}: the name {plugin.name} is taken by {other.__module__}.{other.__qualname__}; "
            "give the class another `name`"
        )
    registry[plugin.name] = plugin
