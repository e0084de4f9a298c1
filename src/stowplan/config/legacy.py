"""Older versions of the format, brought to v1 so that they decide as before, as far as v1 can say it.

What changes is told in warnings; what v1 cannot say is a problem, for a scheduler that quietly decides
otherwise is worse than one that does not start.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from stowplan.config.legacy_profiles import convert_profile
from stowplan.config.problems import Problem, shown
from stowplan.config.types import API_GROUP, API_VERSION, KubeSchedulerConfiguration, Plugins, Profile

V1BETA1: Final = f"{API_GROUP}/v1beta1"
V1BETA2: Final = f"{API_GROUP}/v1beta2"
V1BETA3: Final = f"{API_GROUP}/v1beta3"


class LegacyConfiguration(KubeSchedulerConfiguration, frozen=True, forbid_unknown_fields=True):
    """v1 with the fields that only older versions have."""

    healthz_bind_address: str | None = None
    metrics_bind_address: str | None = None


_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")
_PLACEMENT: Final = ("placementGenerate", "placementScore")
_NEW_IN_PROFILES: Final = frozenset({"percentageOfNodesToScore"})

HIDDEN_FIELDS: Final[dict[str, dict[type, frozenset[str]]]] = {
    V1BETA3: {
        LegacyConfiguration: frozenset({"delayCacheUntilActive", *_ADDRESSES}),
        Profile: _NEW_IN_PROFILES,
        Plugins: frozenset(_PLACEMENT),
    },
    V1BETA2: {
        LegacyConfiguration: frozenset({"delayCacheUntilActive"}),
        Profile: _NEW_IN_PROFILES,
        Plugins: frozenset(_PLACEMENT),
    },
    V1BETA1: {
        LegacyConfiguration: frozenset({"delayCacheUntilActive"}),
        Profile: _NEW_IN_PROFILES,
        Plugins: frozenset({*_PLACEMENT, "preEnqueue", "multiPoint"}),
    },
}
"""The versions that can be converted, newest first, each with the fields it does not know."""


class Conversion(NamedTuple):
    """An older configuration in v1."""

    configuration: KubeSchedulerConfiguration
    warnings: tuple[Problem, ...]
    problems: tuple[Problem, ...]


def converted(old: LegacyConfiguration, version: str) -> Conversion:
    """What an older configuration says, in v1."""
    warnings = [
        Problem("apiVersion", f"{version} is an old version; it was read as what it says in {API_VERSION}")
    ]
    problems: list[Problem] = []
    for field, address in zip(_ADDRESSES, (old.healthz_bind_address, old.metrics_bind_address), strict=True):
        if address is not None:
            warnings.append(
                Problem(field, "has no effect any more: health and metrics are served over HTTPS only")
            )
    election = old.leader_election
    if election.resource_lock not in ("", "leases"):
        message = f"{shown(election.resource_lock)} is gone and leases take its place"
        risk = "stop schedulers that still use it, or two may schedule at once"
        warnings.append(Problem("leaderElection.resourceLock", f"{message}; {risk}"))
        election = msgspec.structs.replace(election, resource_lock="leases")
    profiles = []
    # The default profile needs converting as well: its weights were others.
    for i, profile in enumerate(old.profiles or (Profile(),)):
        conversion = convert_profile(profile, version.rpartition("/")[2], f"profiles[{i}]")
        profiles.append(conversion.profile)
        warnings += conversion.warnings
        problems += conversion.problems
    fields = {
        field.name: getattr(old, field.name) for field in msgspec.structs.fields(KubeSchedulerConfiguration)
    }
    fields |= {"api_version": API_VERSION, "leader_election": election, "profiles": tuple(profiles)}
    return Conversion(KubeSchedulerConfiguration(**fields), tuple(warnings), tuple(problems))
