"""A plugin that failed: the pod gets an error, everything else goes on."""

from __future__ import annotations

_WORDS = {
    "preEnqueue": 'running PreEnqueue plugin "{}": {}',
    "preFilter": 'running PreFilter plugin "{}": {}',
    "filter": 'running "{}" filter plugin: {}',
    "postFilter": 'running PostFilter plugin "{}": {}',
    "preScore": 'running PreScore plugin "{}": {}',
    "score": 'running Score plugin "{}": {}',
    "normalize": 'running Score plugin "{}": {}',
}


class PluginError(Exception):
    """Says which plugin failed, at which point, and how, in upstream's words."""

    def __init__(self, plugin: str, point: str, problem: object) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, ValueError):
            problem = f"{type(problem).__name__}: {problem}"
        words = _WORDS.get(point, 'running plugin "{}": {}')
        super().__init__(words.format(plugin, problem))
        self.plugin = plugin
        self.point = point
