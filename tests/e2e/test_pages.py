"""The pages of kube-scheduler and ours, side by side: what is made for the one must work with the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.control_plane import binaries
from tests.control_plane.plane import ControlPlane
from tests.e2e.test_run import NODES, PODS, Running, eventually, node, pod, scheduler

pytestmark = pytest.mark.control_plane

NOT_HERE = {
    # how kube-scheduler's batches go, in whose place answers are remembered
    "scheduler_batch_attempts",
    "scheduler_batch_cache_flushed",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_store_schedule_results_duration_seconds",
    # single calls of plugins, of hints and of the informers' handlers
    "scheduler_event_handling_duration_seconds",
    "scheduler_plugin_evaluation",
    "scheduler_plugin_execution_duration_seconds",
    "scheduler_queueing_hint_execution_duration_seconds",
    # the inside of Go's client
    "rest_client_exec_plugin_certificate_rotation_age",
    "rest_client_exec_plugin_ttl_seconds",
    "rest_client_request_size_bytes",
    "rest_client_response_size_bytes",
    "rest_client_transport_cache_entries",
    "rest_client_transport_cert_rotation_gc_calls",
    "rest_client_transport_create_calls",
    # the machine's, not the process's
    "process_network_receive_bytes",
    "process_network_transmit_bytes",
    "process_virtual_memory_max_bytes",
}
LABELS_THAT_MAY_DIFFER = {"host", "profile"}
COMPARED = ("scheduler_", "rest_client_", "leader_election_", "process_", "go_goroutines")


class Family(NamedTuple):
    """What dashboards and alerts rely on."""

    type: str
    labels: frozenset[str]
    buckets: frozenset[float]


class Page(NamedTuple):
    families: dict[str, Family]
    values: dict[tuple[str, frozenset[tuple[str, str]]], float]


def metrics_of(text: str) -> Page:
    families: dict[str, Family] = {}
    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        buckets = {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}
        if family.name.startswith(COMPARED):
            families[family.name] = Family(family.type, frozenset(labels), frozenset(buckets))
        for sample in family.samples:
            kept = {
                (name, value) for name, value in sample.labels.items() if name not in LABELS_THAT_MAY_DIFFER
            }
            values[(sample.name, frozenset(kept))] = sample.value
    return Page(families, values)


class Both(NamedTuple):
    theirs: Running
    ours: Running
    token: str

    def pages(self, path: str) -> tuple[str, str]:
        answers = [one.get(path, self.token) for one in (self.theirs, self.ours)]
        assert [status for status, _ in answers] == [200, 200], answers
        return answers[0][1], answers[1][1]


@pytest.fixture(scope="module")
def both(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """kube-scheduler and stowplan after the same work: pods placed, one that fits nowhere, one gated."""
    folder = tmp_path_factory.mktemp("both")

    def flags(name: str) -> tuple[str, ...]:
        config = folder / f"{name}.yaml"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {control_plane.kubeconfig}}}\n"
            f"leaderElection: {{resourceName: {name}}}\nprofiles: [{{schedulerName: {name}}}]\n"
        )
        return (f"--config={config}",)

    upstream = (str(binaries.folder() / "kube-scheduler"),)
    with (
        control_plane.client() as api,
        scheduler(control_plane, folder / "theirs", *flags("theirs"), program=upstream) as theirs,
        scheduler(control_plane, folder / "ours", *flags("ours")) as ours,
    ):
        api.create(NODES, node("only"))
        for name in ("theirs", "ours"):
            api.create(PODS, pod(f"{name}-1", schedulerName=name))
            api.create(PODS, pod(f"{name}-2", schedulerName=name))
            api.create(PODS, pod(f"{name}-big", cpu="99", schedulerName=name))
            api.create(PODS, pod(f"{name}-gated", schedulerName=name, schedulingGates=[{"name": "a.b/c"}]))

        def all_looked_at() -> bool:
            pods = api.get(PODS)["items"]
            return all(one["spec"].get("nodeName") or one["status"].get("conditions") for one in pods)

        eventually(all_looked_at)
        yield Both(theirs, ours, control_plane.token)


def test_metrics_have_the_same_names_types_labels_and_buckets(both: Both) -> None:
    theirs, ours = map(metrics_of, both.pages("/metrics"))
    assert theirs.families.keys() - ours.families.keys() <= NOT_HERE
    assert not ours.families.keys() & NOT_HERE
    for name, family in theirs.families.items():
        if name not in NOT_HERE:
            assert ours.families[name] == family, name


@pytest.mark.parametrize(
    "metric",
    [
        "scheduler_schedule_attempts_total",
        "scheduler_queue_incoming_pods_total",
        "scheduler_pending_pods",
        "scheduler_unschedulable_pods",
        "scheduler_cache_size",
        "leader_election_master_status",
        "rest_client_requests_total",
        "rest_client_rate_limiter_duration_seconds_count",
    ],
)
def test_labels_have_the_same_values_after_the_same_work(both: Both, metric: str) -> None:
    def values(page: str) -> set[frozenset[tuple[str, str]]]:
        return {labels for name, labels in metrics_of(page).values if name == metric}

    def same() -> bool:
        theirs, ours = map(values, both.pages("/metrics"))
        return bool(theirs) and theirs == ours

    eventually(same)


@pytest.mark.parametrize(
    "metric",
    [
        "scheduler_schedule_attempts_total",
        "scheduler_scheduling_attempt_duration_seconds_count",
        "scheduler_scheduling_algorithm_duration_seconds_count",
        "scheduler_pod_scheduling_attempts_sum",
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims_count",
        "scheduler_queue_incoming_pods_total",
        "scheduler_pending_pods",
        "scheduler_unschedulable_pods",
        "scheduler_cache_size",
    ],
)
def test_the_same_work_is_counted_the_same(both: Both, metric: str) -> None:
    def same() -> bool:
        theirs, ours = (
            {labels: value for (name, labels), value in metrics_of(page).values.items() if name == metric}
            for page in both.pages("/metrics")
        )
        return bool(theirs) and theirs == ours

    eventually(same)


def test_events_are_counted_for_pods_in_flight_and_forgotten_with_them(both: Both) -> None:
    """Which happen while a pod is in flight is chance, but the pod itself is always in the list."""
    name = "scheduler_inflight_events"

    def none_left() -> bool:
        for page in both.pages("/metrics"):
            counted = {
                labels: value for (metric, labels), value in metrics_of(page).values.items() if metric == name
            }
            assert frozenset({("event", "PodPopped")}) in counted
            if any(counted.values()):
                return False
        return True

    eventually(none_left)


def test_points_from_reserve_on_are_labelled_the_same(both: Both) -> None:
    name = "scheduler_framework_extension_point_duration_seconds_count"
    theirs, ours = (
        {labels for metric, labels in metrics_of(page).values if metric == name}
        for page in both.pages("/metrics")
    )
    assert ours
    assert ours <= theirs


def test_resources_are_the_same(both: Both) -> None:
    theirs, ours = (
        {line for line in page.splitlines() if not line.startswith("#")}
        for page in both.pages("/metrics/resources")
    )
    assert theirs
    assert theirs == ours


@pytest.mark.parametrize(
    "path",
    [
        "/healthz?verbose",
        "/livez?verbose",
        "/readyz?verbose",
        "/readyz?verbose&exclude=shutdown&exclude=nope",
        "/healthz/leaderElection",
        "/livez/ping",
        "/readyz/sched-handler-sync",
    ],
)
def test_health_is_told_in_the_same_words(both: Both, path: str) -> None:
    theirs, ours = both.pages(path)
    assert theirs == ours


@pytest.mark.parametrize(
    "path", ["/", "/nope", "/healthz/", "/healthz/nope", "/readyz/ping", "/metrics", "/metrics/"]
)
@pytest.mark.parametrize("token", ["", "wrong", None], ids=["nobody", "a wrong token", "an administrator"])
def test_who_may_not_ask_is_told_so_in_the_same_words(both: Both, path: str, token: str | None) -> None:
    if path == "/metrics" and token is None:
        return
    theirs, ours = (one.get(path, both.token if token is None else token) for one in both[:2])
    assert theirs == ours


def test_the_configuration_is_the_same(both: Both) -> None:
    theirs, ours = (json.loads(page.replace('"theirs"', '"ours"')) for page in both.pages("/configz"))
    assert said(theirs) == said(ours)


def said(data: Any) -> Any:
    """Without what says nothing: Go writes empty sets and zeros where we leave them out, or the other way."""
    if isinstance(data, dict):
        kept = {name: said(value) for name, value in data.items()}
        return {name: value for name, value in kept.items() if value not in (None, {}, [], "", 0, False)}
    return [said(item) for item in data] if isinstance(data, list) else data
