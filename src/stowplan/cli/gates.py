"""`--feature-gates`: stowplan does what Kubernetes 1.36 does with its default gates, so a gate that is set to
its default is fine, and one that is not deserves a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from stowplan.cli.flags import SWITCH, FlagError

_ON: Final = (
    "SchedulerQueueingHints SchedulerPopFromBackoffQ SchedulerAsyncPreemption NodeDeclaredFeatures "
    "NominatedNodeNameForExpectation ClearingNominatedNodeNameAfterBinding OpportunisticBatching "
    "PodLevelResources InPlacePodVerticalScaling InPlacePodLevelResourcesVerticalScaling "
    "MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge "
    "MatchLabelKeysInPodAffinity NodeInclusionPolicyInPodTopologySpread MinDomainsInPodTopologySpread "
    "DynamicResourceAllocation DRAAdminAccess DRAPrioritizedList DRAConsumableCapacity DRADeviceTaints "
    "DRAPartitionableDevices DRAExtendedResource DRADeviceBindingConditions DRAResourceClaimDeviceStatus "
    "DRASchedulerFilterTimeout DRAResourceClaimGranularStatusAuthorization VolumeAttributesClass "
    "VolumeCapacityPriority SidecarContainers PodSchedulingReadiness PodDisruptionConditions"
)
_OFF: Final = (
    "SchedulerAsyncAPICalls DRADeviceTaintRules DRAListTypeAttributes DRANodeAllocatableResources "
    "DRAWorkloadResourceClaims StorageCapacityScoring VolumeLimitScaling TaintTolerationComparisonOperators "
    "GenericWorkload GangScheduling TopologyAwareWorkloadScheduling WorkloadAwarePreemption WorkloadWithJob "
    "CoordinatedLeaderElection ComponentFlagz ComponentStatusz AllAlpha AllBeta"
)
WHAT_IS: Final[Mapping[str, bool]] = dict.fromkeys(_ON.split(), True) | dict.fromkeys(_OFF.split(), False)
"""The gates that change what a scheduler does, and which way it is here."""


def gate_warnings(given: Iterable[str]) -> Iterator[str]:
    """What should be known about the gates on a command line. A FlagError says what cannot be read."""
    for name, wanted in _settings(given):
        actual = WHAT_IS.get(name)
        if actual is None:
            yield f"feature gate {name} means nothing to stowplan and has no effect"
        elif actual != wanted:
            yield (
                f"feature gate {name}={str(wanted).lower()} has no effect: "
                f"stowplan behaves as with {name}={str(actual).lower()}"
            )


def _settings(given: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for part in (part.strip() for text in given for part in text.split(",")):
        if not part:
            continue
        name, _, value = part.partition("=")
        component, colon, bare = name.partition(":")
        if colon and component != "kube":
            raise FlagError(f"--feature-gates: {part!r}: the component is kube, or is left out")
        try:
            yield (bare if colon else name).strip(), SWITCH.read(value)
        except ValueError:
            message = f"--feature-gates: {part!r} is not of the form Name=true or Name=false"
            raise FlagError(message) from None
