"""Completing a configuration: what is not said, and what is said with a zero that means "the default".

The default plugins are merged into the sets of every profile here; which extension points each of them gets
is decided later, in `profiles`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from stowplan.config.types import (
    DEFAULT_BURST,
    DEFAULT_CONTENT_TYPE,
    DEFAULT_HTTP_TIMEOUT,
    DEFAULT_QPS,
    DEFAULT_SCHEDULER_NAME,
    LEASE_DURATION,
    RENEW_DEADLINE,
    RETRY_PERIOD,
    SET_ATTRIBUTES,
    ClientConnection,
    KubeSchedulerConfiguration,
    LeaderElection,
    Plugin,
    Plugins,
    PluginSet,
    Profile,
)


def _named(*plugins: tuple[str, int | None]) -> tuple[Plugin, ...]:
    return tuple(Plugin(name=name, weight=weight) for name, weight in plugins)


DEFAULT_PLUGINS: Final = Plugins(
    multi_point=PluginSet(
        enabled=_named(
            ("SchedulingGates", None),
            ("PrioritySort", None),
            ("NodeUnschedulable", None),
            ("NodeName", None),
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodePorts", None),
            ("NodeResourcesFit", 1),
            ("VolumeRestrictions", None),
            ("NodeVolumeLimits", None),
            ("VolumeBinding", None),
            ("VolumeZone", None),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("DynamicResources", 2),  # before DefaultPreemption: freeing an idle claim beats evicting a pod
            ("DefaultPreemption", None),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
            ("DefaultBinder", None),
            ("NodeDeclaredFeatures", None),
        )
    )
)
"""The plugins of upstream 1.36 with its default feature gates, in its order and with its weights."""


def default_configuration() -> KubeSchedulerConfiguration:
    """The configuration that an empty file stands for, complete."""
    return completed(KubeSchedulerConfiguration())


def completed(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The configuration with everything filled in. Completing it once more changes nothing."""
    profiles = configuration.profiles or (Profile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (msgspec.structs.replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    contention = configuration.enable_contention_profiling
    return msgspec.structs.replace(
        configuration,
        profiles=tuple(
            msgspec.structs.replace(profile, plugins=merged(DEFAULT_PLUGINS, profile.plugins))
            for profile in profiles
        ),
        leader_election=_completed_election(configuration.leader_election),
        client_connection=_completed_connection(configuration.client_connection),
        extenders=tuple(
            msgspec.structs.replace(extender, http_timeout=extender.http_timeout or DEFAULT_HTTP_TIMEOUT)
            for extender in configuration.extenders
        ),
        enable_contention_profiling=configuration.enable_profiling if contention is None else contention,
    )


def _completed_election(election: LeaderElection) -> LeaderElection:
    return msgspec.structs.replace(
        election,
        lease_duration=election.lease_duration or LEASE_DURATION,
        renew_deadline=election.renew_deadline or RENEW_DEADLINE,
        retry_period=election.retry_period or RETRY_PERIOD,
        resource_lock=election.resource_lock or LeaderElection().resource_lock,
        resource_name=election.resource_name or LeaderElection().resource_name,
        resource_namespace=election.resource_namespace or LeaderElection().resource_namespace,
    )


def _completed_connection(connection: ClientConnection) -> ClientConnection:
    return msgspec.structs.replace(
        connection,
        content_type=connection.content_type or DEFAULT_CONTENT_TYPE,
        qps=connection.qps or DEFAULT_QPS,
        burst=connection.burst or DEFAULT_BURST,
    )


def merged(defaults: Plugins, custom: Plugins) -> Plugins:
    """The default plugins with a profile's own sets laid over them, set by set."""
    return Plugins(
        **{
            attribute: merged_set(defaults.at(name), custom.at(name))
            for name, attribute in SET_ATTRIBUTES.items()
        }
    )


def merged_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """One set: a default that the profile enables again takes the profile's weight and keeps its place; what
    the profile disables goes ("*": all defaults); what else the profile enables comes last.

    The names disabled stay in the set, because `multiPoint` must not bring them back to this point.
    """
    disabled = (*custom.disabled, *default.disabled)
    names = frozenset(plugin.name for plugin in disabled)
    last_place = {plugin.name: place for place, plugin in enumerate(custom.enabled)}
    enabled: list[Plugin] = []
    used: set[int] = set()
    for plugin in default.enabled if "*" not in names else ():
        if plugin.name in names:
            continue
        place = last_place.get(plugin.name)
        if place is not None:
            used.add(place)
            plugin = custom.enabled[place]
        enabled.append(plugin)
    enabled.extend(plugin for place, plugin in enumerate(custom.enabled) if place not in used)
    return PluginSet(enabled=tuple(enabled), disabled=tuple(Plugin(name=plugin.name) for plugin in disabled))
