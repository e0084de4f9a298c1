"""Values that upstream refuses are refused, those it accepts are accepted."""

from __future__ import annotations

import pytest

from tests.unit.config.intree import load, problems

TWO = "profiles: [{schedulerName: a%s}, {schedulerName: b%s}]"


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ("parallelism: 0", "parallelism", "0 must be greater than zero"),
        ("parallelism: -1", "parallelism", "-1 must be greater than zero"),
        ("clientConnection: {burst: -1}", "clientConnection.burst", "must not be negative"),
        ("percentageOfNodesToScore: -1", "percentageOfNodesToScore", "-1 is not between 0 and 100"),
        ("percentageOfNodesToScore: 101", "percentageOfNodesToScore", "101 is not between 0 and 100"),
        (
            "profiles: [{percentageOfNodesToScore: 101}]",
            "profiles[0].percentageOfNodesToScore",
            "101 is not between 0 and 100",
        ),
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds", "0 must be greater than zero"),
        (
            "podMaxBackoffSeconds: 0",
            "podMaxBackoffSeconds",
            "0 must not be less than podInitialBackoffSeconds (1)",
        ),
        ("leaderElection: {leaseDuration: -1s}", "leaderElection.leaseDuration", "must be greater than zero"),
        ("leaderElection: {renewDeadline: -1s}", "leaderElection.renewDeadline", "must be greater than zero"),
        ("leaderElection: {retryPeriod: -1s}", "leaderElection.retryPeriod", "must be greater than zero"),
        (
            "leaderElection: {leaseDuration: 10s}",
            "leaderElection.leaseDuration",
            "10s must be greater than renewDeadline (10s)",
        ),
        (
            "leaderElection: {retryPeriod: 9s}",
            "leaderElection.renewDeadline",
            "10s must be longer than 1.2 times retryPeriod (9s)",
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            "leaderElection.resourceLock",
            '"endpoints" must be "leases"',
        ),
        ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName", "is missing"),
        ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName", "is missing"),
        (
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            "profiles[1].schedulerName",
            '"a" is already the name of profiles[0]',
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
            "profiles[0].plugins.filter.enabled[0]",
            "the plugin EBSLimits was removed: NodeVolumeLimits counts these volumes now",
        ),
        (
            "profiles: [{plugins: {multiPoint: {enabled: [{name: CinderLimits}]}}}]",
            "profiles[0].plugins.multiPoint.enabled[0]",
            'there is no plugin "CinderLimits": NodeVolumeLimits counts',
        ),
        (
            "profiles: [{pluginConfig: [{name: AzureDiskLimits}]}]",
            "profiles[0].pluginConfig[0]",
            "the plugin AzureDiskLimits was removed",
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeName}, {name: NodeName}]}]",
            "profiles[0].pluginConfig[1]",
            "gives args of NodeName for the second time",
        ),
        (
            TWO % ("", ", plugins: {queueSort: {enabled: [{name: PrioritySort}]}}"),
            "profiles[1].plugins.queueSort",
            "must be the same in all profiles",
        ),
        (
            TWO % (", plugins: {queueSort: {disabled: [{name: X}]}}", ""),
            "profiles[1].plugins.queueSort",
            "must be the same in all profiles",
        ),
        (
            "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: QOSSort}]}}}]",
            "profiles[0].plugins.queueSort.enabled",
            "only one plugin can sort the queue",
        ),
        (
            "extenders: [{urlPrefix: u, prioritizeVerb: p}]",
            "extenders[0].weight",
            "0 must be greater than zero, as prioritizeVerb is set",
        ),
        (
            "extenders: [{urlPrefix: u, bindVerb: b}, {urlPrefix: u}, {urlPrefix: u, bindVerb: b}]",
            "extenders[2].bindVerb",
            "extenders[0] binds already; only one may",
        ),
        (
            "extenders: [{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}]",
            "extenders[1].managedResources[0].name",
            '"a.b/c" is managed by an extender already',
        ),
    ],
)
def test_refused(body: str, path: str, message: str) -> None:
    lines = problems(body)
    assert any(f" {path}: " in line and message in line for line in lines), lines


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("example.com/gpu", True),
        ("example.com/a_b.c-D", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("a.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("Example.com/gpu", False),
        ("example.com/", False),
        ("/gpu", False),
        ("a/b/c", False),
        ("example.com/-gpu", False),
        ("example.com/" + "a" * 64, False),
        ("example.com/" + "a" * 63, True),
        ("a" * 250 + "/gpu", False),
    ],
)
def test_managed_resources_are_extended_resources(name: str, good: bool) -> None:
    body = f"extenders: [{{urlPrefix: u, managedResources: [{{name: {name}}}]}}]"
    if good:
        load(body)
    else:
        assert "extenders[0].managedResources[0].name: " in problems(body)[0]


@pytest.mark.parametrize(
    "body",
    [
        "leaderElection: {leaderElect: false, leaseDuration: -5s, resourceLock: endpoints}",
        "leaderElection: {retryPeriod: 8.333s}",
        "percentageOfNodesToScore: 100",
        "podInitialBackoffSeconds: 10",
        "profiles: [{plugins: {score: {disabled: [{name: NoSuchPlugin}]}}}]",
        "extenders: [{urlPrefix: u, prioritizeVerb: p, weight: 1, bindVerb: b}]",
        "delayCacheUntilActive: true",
        TWO % ((", plugins: {queueSort: {enabled: [{name: QOSSort}], disabled: [{name: '*'}]}}",) * 2),
        "profiles: [{plugins: {score: {enabled: [{name: SameRack, weight: 2147483647}]}}}]",
    ],
)
def test_accepted(body: str) -> None:
    load(body)
