"""What is not said is filled in as upstream does."""

from __future__ import annotations

import pytest

from stowplan.config.defaults import DEFAULT_PLUGINS, completed, default_configuration, merged_set
from stowplan.config.types import KubeSchedulerConfiguration, Plugin, PluginSet
from stowplan.objects.duration import Duration
from tests.unit.config.intree import load


def plugin_set(enabled: str = "", disabled: str = "") -> PluginSet:
    """A set from names, with weights after a colon."""

    def plugin(text: str) -> Plugin:
        name, _, weight = text.partition(":")
        return Plugin(name=name, weight=int(weight) if weight else None)

    return PluginSet(
        enabled=tuple(map(plugin, enabled.split())), disabled=tuple(map(plugin, disabled.split()))
    )


def test_the_default_configuration() -> None:
    configuration = default_configuration()
    assert configuration.parallelism == 16
    assert configuration.percentage_of_nodes_to_score == 0
    assert (configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds) == (1, 10)
    assert configuration.enable_profiling
    assert configuration.enable_contention_profiling
    assert not configuration.delay_cache_until_active
    election = configuration.leader_election
    assert election.leader_elect
    assert [str(d) for d in (election.lease_duration, election.renew_deadline, election.retry_period)] == [
        "15s",
        "10s",
        "2s",
    ]
    assert (election.resource_lock, election.resource_namespace, election.resource_name) == (
        "leases",
        "kube-system",
        "kube-scheduler",
    )
    client = configuration.client_connection
    assert (client.content_type, client.qps, client.burst) == (
        "application/vnd.kubernetes.protobuf",
        50.0,
        100,
    )
    (profile,) = configuration.profiles
    assert profile.scheduler_name == "default-scheduler"
    assert profile.plugins == DEFAULT_PLUGINS


def test_zeros_and_empty_texts_mean_the_default() -> None:
    body = (
        "leaderElection: {leaseDuration: 0s, renewDeadline: '0', retryPeriod: 0ms, resourceLock: '',"
        " resourceName: '', resourceNamespace: ''}\nclientConnection: {qps: 0, burst: 0, contentType: ''}"
    )
    assert load(body).configuration == default_configuration()


@pytest.mark.parametrize(
    ("timeout", "completed"), [("", "5s"), (", httpTimeout: 0s", "5s"), (", httpTimeout: 7s", "7s")]
)
def test_extenders_have_five_seconds_unless_said(timeout: str, completed: str) -> None:
    (extender,) = load(f"extenders: [{{urlPrefix: u{timeout}}}]").configuration.extenders
    assert str(extender.http_timeout) == completed


def test_a_false_leader_elect_is_kept() -> None:
    assert not load("leaderElection: {leaderElect: false}").configuration.leader_election.leader_elect


@pytest.mark.parametrize(
    ("body", "contention"),
    [
        ("enableProfiling: false", False),
        ("enableProfiling: true", True),
        ("{enableProfiling: false, enableContentionProfiling: true}", True),
        ("enableContentionProfiling: false", False),
    ],
)
def test_contention_profiling_follows_profiling_unless_said(body: str, contention: bool) -> None:
    body = body.strip("{}").replace(", ", "\n")
    assert load(body).configuration.enable_contention_profiling is contention


def test_only_a_single_profile_is_named_by_default() -> None:
    (profile,) = load("profiles: [{percentageOfNodesToScore: 5}]").configuration.profiles
    assert profile.scheduler_name == "default-scheduler"
    assert profile.percentage_of_nodes_to_score == 5


def test_durations_are_read() -> None:
    election = load("leaderElection: {leaseDuration: 1m30s}").configuration.leader_election
    assert election.lease_duration == Duration.parse("90s")


@pytest.mark.parametrize(
    ("custom", "merged"),
    [
        (plugin_set(), plugin_set("A B:2 C")),
        (plugin_set("D E:3"), plugin_set("A B:2 C D E:3")),
        (plugin_set("B:7"), plugin_set("A B:7 C")),
        (plugin_set("B"), plugin_set("A B C")),
        (plugin_set("D C B:7"), plugin_set("A B:7 C D")),
        (plugin_set("", "B"), plugin_set("A C", "B")),
        (plugin_set("B:5", "B"), plugin_set("A C B:5", "B")),
        (plugin_set("", "*"), plugin_set("", "*")),
        (plugin_set("B:5 D", "*"), plugin_set("B:5 D", "*")),
        (plugin_set("", "X"), plugin_set("A B:2 C", "X")),
        (plugin_set("B:1 B:2"), plugin_set("A B:2 C B:1")),
    ],
)
def test_merging_a_set_with_its_defaults(custom: PluginSet, merged: PluginSet) -> None:
    assert merged_set(plugin_set("A B:2 C"), custom) == merged


def test_the_weight_of_a_disabled_plugin_is_forgotten() -> None:
    assert merged_set(plugin_set(), plugin_set("", "A:3")) == plugin_set("", "A")


def test_completing_twice_changes_nothing() -> None:
    once = load(
        "profiles: [{plugins: {multiPoint: {enabled: [{name: SameRack}], disabled: [{name: NodeName}]}}}]"
    )
    assert completed(once.configuration) == once.configuration
    assert completed(completed(KubeSchedulerConfiguration())) == default_configuration()
