"""A plugin that failed: the pod gets an error, everything else goes on."""

from __future__ import annotations

_WORDS = {
    "preEnqueue": 'running PreEnqueue plugin "{}": {}',
    "preFilter": 'running PreFilter plugin "{}": {}',
    "filter": 'running "{}" filter plugin: {}',
    "postFilter": 'running PostFilter plugin "{}": {}',
    "preScore": 'running PreScore plugin "{}": {}',
    "score": 'running Score plugin "{}": {}',
    "unreserve": 'running Unreserve plugin "{}": {}',
    "postBind": 'running PostBind plugin "{}": {}',
    "normalize": 'running Score plugin "{}": {}',
}


class PluginError(Exception):
    """Says which plugin failed, at which point, and how, in upstream's words."""

    def __init__(self, plugin: str, point: str, problem: object) -> None:
        if isinstance(problem, BaseException) and not isinstance(problem, ValueError):
            problem = f"{type(problem).__name__}: {problem}"
        words = _WORDS.get(point, 'running plugin "{}": {}')
        super().__init__(words.format(plugin, problem))
        self.plugin = plugin
        self.point = point


def failed(plugin: str, point: str, problem: BaseException) -> PluginError:
    """What a plugin raised, as its failure."""
    pass_on_exit(problem)
    return PluginError(plugin, point, problem)


def words_of(problem: BaseException) -> str:
    """What a plugin raised in a few words, for points whose failures are a status."""
    pass_on_exit(problem)
    return str(problem) or type(problem).__name__


def pass_on_exit(problem: BaseException) -> None:
    """Whatever a plugin raises is its failure and no more, be it no Exception: asking a cancelled task for
    its result raises CancelledError, which would end the loop that serves all pods. What is to end the
    process goes on as it is."""
    if isinstance(problem, (KeyboardInterrupt, SystemExit)):
        raise problem
