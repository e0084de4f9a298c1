"""The way in: from the bytes of a file to a checked configuration and its profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stowplan.config import legacy
from stowplan.config.defaults import completed
from stowplan.config.problems import ConfigError, Problem, shown
from stowplan.config.profiles import PluginInfo, resolve
from stowplan.config.source import Source
from stowplan.config.structure import read_record
from stowplan.config.types import API_GROUP, API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.config.validate import problems_of, warnings_of
from stowplan.framework.profile import ProfilePlan


class Loaded(NamedTuple):
    """A configuration that can be used."""

    configuration: KubeSchedulerConfiguration
    """Complete: every default filled in."""
    profiles: tuple[ProfilePlan, ...]
    warnings: tuple[str, ...]
    """What works but should be known, one sentence each, with its place."""


class Reading(NamedTuple):
    """A file as records, brought to v1, neither completed nor checked yet."""

    written: KubeSchedulerConfiguration
    source: Source
    version: str
    """The apiVersion of the file."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def _as_written(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    return configuration


def load_configuration(
    text: bytes,
    name: str,
    registry: Mapping[str, PluginInfo],
    overridden: Callable[[KubeSchedulerConfiguration], KubeSchedulerConfiguration] = _as_written,
) -> Loaded:
    """The configuration in a file, or `ConfigError` with everything that is wrong with it.

    `name` stands for the file in messages; `registry` is every plugin there is. What counts for more than
    the file comes in by `overridden`, before anything is checked: a flag may mend a field, or spoil it.
    """
    reading = read_configuration(text, name)
    configuration = overridden(completed(reading.written))
    resolution = resolve(configuration, registry, reading.written)
    problems = [*reading.problems, *problems_of(configuration), *resolution.problems]
    if problems:
        raise ConfigError(problems, _Places(reading))
    warnings = [*reading.warnings, *warnings_of(reading.written), *resolution.warnings]
    return Loaded(configuration, resolution.profiles, warning_lines(reading, warnings))


def convert_configuration(text: bytes, name: str) -> tuple[KubeSchedulerConfiguration, tuple[str, ...]]:
    """The configuration in a file of any version, as v1 without defaults filled in, and what should be known
    about the change. `ConfigError` where v1 cannot say what the file says."""
    reading = read_configuration(text, name)
    if reading.problems:
        raise ConfigError(reading.problems, _Places(reading))
    return reading.written, warning_lines(reading, reading.warnings)


def read_configuration(text: bytes, name: str) -> Reading:
    """The file as records. Problems that make it unreadable are raised, others are in the answer."""
    source = Source(text, name)
    problems = source.problems
    version = _version(source)
    shape: type[KubeSchedulerConfiguration] = KubeSchedulerConfiguration
    hidden: Mapping[type, frozenset[str]] = {}
    if version != API_VERSION:
        shape, hidden = legacy.LegacyConfiguration, legacy.HIDDEN_FIELDS[version]
    read = read_record(source.data, shape, "", problems, hidden)
    if read is None:
        raise ConfigError(problems, source)
    if not isinstance(read, legacy.LegacyConfiguration):
        return Reading(read, source, version, tuple(problems), ())
    conversion = legacy.converted(read, version)
    return Reading(
        conversion.configuration, source, version, (*problems, *conversion.problems), conversion.warnings
    )


def _version(source: Source) -> str:
    """The apiVersion of the file; raises where it is no configuration that can be read."""
    data: Any = source.data
    if not isinstance(data, dict):
        what = "is empty" if data is None else "is not an object with fields"
        raise ConfigError(
            [Problem("", f"the file {what}; it must start with apiVersion: {API_VERSION}")], source
        )
    version, kind = data.get("apiVersion"), data.get("kind")
    problems = []
    if kind is None:
        problems.append(Problem("kind", f"is missing; it must be {KIND}"))
    elif kind != KIND:
        hint = "; a policy must be rewritten as profiles" if kind == "Policy" else ""
        problems.append(Problem("kind", f"{shown(kind)} must be {KIND}{hint}"))
    if version is None:
        problems.append(Problem("apiVersion", f"is missing; it must be {API_VERSION}"))
    elif version != API_VERSION and version not in legacy.HIDDEN_FIELDS:
        older = ", ".join(one.removeprefix(f"{API_GROUP}/") for one in legacy.HIDDEN_FIELDS)
        message = f"{shown(version)} is not known; write {API_VERSION} (or one of the older {older})"
        problems.append(Problem("apiVersion", message))
    if problems:
        raise ConfigError(problems, source)
    return str(version)


class _Places:
    """Where things stand in the file. In a file that was converted, plugins may stand elsewhere than in the
    result, so there only the profile can be named."""

    def __init__(self, reading: Reading) -> None:
        self.name = reading.source.name
        self._source = reading.source
        self._moved = reading.version != API_VERSION
        self._in_file = frozenset(problem.path for problem in reading.source.problems)

    def line(self, path: str) -> int | None:
        if self._moved and path not in self._in_file:
            path = path.partition(".plugins.")[0].partition(".pluginConfig[")[0]
        return self._source.line(path)


def warning_lines(reading: Reading, warnings: list[Problem] | tuple[Problem, ...]) -> tuple[str, ...]:
    """Warnings as sentences with their places."""
    return ConfigError(warnings, _Places(reading)).lines
