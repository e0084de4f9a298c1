"""Upstream's rules for a complete configuration that need no knowledge of plugins.

Those about plugins and their args are in `profiles`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stowplan.config.problems import Problem, child, shown
from stowplan.config.types import (
    EXTENSION_POINTS,
    RETRY_JITTER,
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    Profile,
)

REMOVED_PLUGINS: Final = {
    "AzureDiskLimits": "NodeVolumeLimits counts these volumes now",
    "CinderLimits": "NodeVolumeLimits counts these volumes now",
    "EBSLimits": "NodeVolumeLimits counts these volumes now",
    "GCEPDLimits": "NodeVolumeLimits counts these volumes now",
}
"""Plugins that v1 once had and refuses by name, with what to use instead."""

_NAME_PART: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN: Final = 253


def problems_of(configuration: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Everything wrong with the values of a complete configuration."""
    yield from _connection_problems(configuration.client_connection)
    yield from _election_problems(configuration.leader_election)
    if configuration.parallelism <= 0:
        yield Problem("parallelism", f"{configuration.parallelism} must be greater than zero")
    yield from _percentage_problems("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score)
    initial, longest = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if initial <= 0:
        yield Problem("podInitialBackoffSeconds", f"{initial} must be greater than zero")
    if longest < initial:
        yield Problem(
            "podMaxBackoffSeconds", f"{longest} must not be less than podInitialBackoffSeconds ({initial})"
        )
    yield from _profile_problems(configuration.profiles)
    yield from _queue_sort_problems(configuration.profiles)
    yield from _extender_problems(configuration.extenders)


def warnings_of(configuration: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """What upstream accepts without a word, and what can hardly be meant or is not done here."""
    for i, extender in enumerate(configuration.extenders):
        yield Problem(f"extenders[{i}]", "is not called: decisions are made without extenders")
        if not extender.url_prefix:
            yield Problem(f"extenders[{i}].urlPrefix", "is empty: no call to this extender can succeed")
    for i, profile in enumerate(configuration.profiles):
        for point, plugins in profile.plugins.sets().items():
            for j, plugin in enumerate(plugins.enabled):
                if plugin.weight is not None and plugin.weight < 0:
                    path = f"profiles[{i}].plugins.{point}.enabled[{j}].weight"
                    yield Problem(path, f"{plugin.weight} turns the scores of {plugin.name} around")


def _connection_problems(connection: ClientConnection) -> Iterator[Problem]:
    if connection.burst < 0:
        yield Problem("clientConnection.burst", f"{connection.burst} must not be negative")


def _election_problems(election: LeaderElection) -> Iterator[Problem]:
    if not election.leader_elect:
        return
    for name, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration <= 0:
            yield Problem(f"leaderElection.{name}", f"{duration} must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        message = f"{election.lease_duration} must be greater than renewDeadline ({election.renew_deadline})"
        yield Problem("leaderElection.leaseDuration", message)
    if 0 < election.renew_deadline <= int(RETRY_JITTER * election.retry_period):  # upstream: at the start
        message = f"{election.renew_deadline} must be longer than {RETRY_JITTER} times retryPeriod"
        yield Problem("leaderElection.renewDeadline", f"{message} ({election.retry_period})")
    for name, text in (
        ("resourceName", election.resource_name),
        ("resourceNamespace", election.resource_namespace),
    ):
        if not text:
            yield Problem(f"leaderElection.{name}", "must not be empty")
    if election.resource_lock != "leases":
        yield Problem("leaderElection.resourceLock", f'{shown(election.resource_lock)} must be "leases"')


def _percentage_problems(path: str, percentage: int | None) -> Iterator[Problem]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield Problem(path, f"{percentage} is not between 0 and 100")


def _profile_problems(profiles: tuple[Profile, ...]) -> Iterator[Problem]:
    first_with_name: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name
        if not name:
            yield Problem(
                f"{path}.schedulerName", "is missing; with several profiles each needs a name of its own"
            )
        elif (first := first_with_name.setdefault(name, i)) != i:
            yield Problem(f"{path}.schedulerName", f"{shown(name)} is already the name of profiles[{first}]")
        yield from _percentage_problems(
            f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score
        )
        yield from _removed_plugin_problems(path, profile)
        seen: set[str] = set()
        for j, config in enumerate(profile.plugin_config):
            if config.name in seen:
                yield Problem(f"{path}.pluginConfig[{j}]", f"gives args of {config.name} for the second time")
            seen.add(config.name)


def _removed_plugin_problems(path: str, profile: Profile) -> Iterator[Problem]:
    places = [
        (f"{path}.plugins.{point}.enabled[{j}]", plugin.name)
        for point in EXTENSION_POINTS
        for j, plugin in enumerate(profile.plugins.at(point).enabled)
    ]
    places += [(f"{path}.pluginConfig[{j}]", config.name) for j, config in enumerate(profile.plugin_config)]
    for place, name in places:
        if name in REMOVED_PLUGINS:
            yield Problem(place, f"the plugin {name} was removed: {REMOVED_PLUGINS[name]}")


def _queue_sort_problems(profiles: tuple[Profile, ...]) -> Iterator[Problem]:
    """There is one queue for all profiles."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        yield Problem("profiles[0].plugins.queueSort.enabled", "only one plugin can sort the queue")
    for i, profile in enumerate(profiles[1:], 1):
        if profile.plugins.queue_sort != first:
            yield Problem(
                f"profiles[{i}].plugins.queueSort", "must be the same in all profiles: they share a queue"
            )


def _extender_problems(extenders: tuple[Extender, ...]) -> Iterator[Problem]:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield Problem(
                f"{path}.weight", f"{extender.weight} must be greater than zero, as prioritizeVerb is set"
            )
        for j, resource in enumerate(extender.managed_resources):
            here = child(f"{path}.managedResources[{j}]", "name")
            if problem := _extended_resource_problem(resource.name):
                yield Problem(here, f"{shown(resource.name)} {problem}")
            if resource.name in managed:
                yield Problem(here, f"{shown(resource.name)} is managed by an extender already")
            managed.add(resource.name)
    binders = [i for i, extender in enumerate(extenders) if extender.bind_verb]
    if len(binders) > 1:
        yield Problem(
            f"extenders[{binders[1]}].bindVerb", f"extenders[{binders[0]}] binds already; only one may"
        )


def _extended_resource_problem(name: str) -> str | None:
    if problem := qualified_name_problem(name):
        return problem
    is_native = "/" not in name or "kubernetes.io/" in name
    if is_native or name.startswith("requests.") or qualified_name_problem("requests." + name):
        return "is not the name of an extended resource; these look like example.com/gpu"
    return None


def qualified_name_problem(name: str) -> str | None:
    """Why this is no qualified name (`[example.com/]name`), or None where it is one."""
    prefix, slash, short = name.rpartition("/")
    if slash and (len(prefix) > _LONGEST_SUBDOMAIN or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        return "must have a DNS name in lower case before the slash"
    if not _NAME_PART.fullmatch(short):
        return (
            "must have up to 63 letters, digits, -, _ and . as its name, with a letter or digit at both ends"
        )
    return None
