from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stowplan.ops.metrics import SchedulerMetrics, exponential
from stowplan.queue.queued import QueuedPod
from stowplan.testing.builders import make_pod


def samples(metrics: SchedulerMetrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def value(metrics: SchedulerMetrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((name, frozenset(labels.items())))


def test_attempts_are_counted_and_timed_by_result_and_profile() -> None:
    metrics = SchedulerMetrics()
    metrics.attempted("a", "scheduled", 0.003)
    metrics.attempted("a", "scheduled", 5.0)
    metrics.attempted("b", "error", 0.1)
    assert value(metrics, "scheduler_schedule_attempts_total", result="scheduled", profile="a") == 2
    assert value(metrics, "scheduler_schedule_attempts_total", result="error", profile="b") == 1
    name = "scheduler_scheduling_attempt_duration_seconds"
    assert value(metrics, f"{name}_bucket", result="scheduled", profile="a", le="0.004") == 1
    assert value(metrics, f"{name}_bucket", result="scheduled", profile="a", le="+Inf") == 2
    assert value(metrics, f"{name}_sum", result="scheduled", profile="a") == 5.003


def test_the_time_until_a_pod_was_bound_goes_by_attempts_up_to_fifteen() -> None:
    metrics = SchedulerMetrics()
    for attempts in (1, 14, 15, 99):
        metrics.bound("p", attempts, 0.5)
    name = "scheduler_pod_scheduling_sli_duration_seconds_count"
    assert value(metrics, name, attempts="1") == 1
    assert value(metrics, name, attempts="14") == 1
    assert value(metrics, name, attempts="15+") == 2
    assert value(metrics, "scheduler_pod_scheduling_attempts_sum") == 129


def test_preemptions_count_their_victims_and_what_came_of_them() -> None:
    metrics = SchedulerMetrics()
    metrics.preempted(3)
    metrics.preemption_carried_out("success", 0.2)
    metrics.sources.preemption_attempts = lambda: 7
    assert value(metrics, "scheduler_preemption_attempts_total") == 7
    assert value(metrics, "scheduler_preemption_victims_bucket", le="4.0") == 1
    assert value(metrics, "scheduler_preemption_victims_bucket", le="2.0") == 0
    assert value(metrics, "scheduler_preemption_goroutines_execution_total", result="success") == 1


def test_points_permits_and_arrivals_have_upstreams_labels() -> None:
    metrics = SchedulerMetrics()
    metrics.point("p", "Filter", "Success", 0.0001)
    metrics.permit_waited("allowed", 1.0)
    metrics.arrived("backoff", "NodeAdd")
    metrics.arrived("backoff", "NodeAdd")
    name = "scheduler_framework_extension_point_duration_seconds_count"
    assert value(metrics, name, extension_point="Filter", status="Success", profile="p") == 1
    assert value(metrics, "scheduler_permit_wait_duration_seconds_count", result="allowed") == 1
    assert value(metrics, "scheduler_queue_incoming_pods_total", queue="backoff", event="NodeAdd") == 2


def test_gauges_are_read_when_asked_for() -> None:
    metrics = SchedulerMetrics()
    counts = {"active": 1, "gated": 2}
    metrics.sources.pending = lambda: counts
    metrics.sources.cache = lambda: {"nodes": 7}
    metrics.sources.running = lambda: {"binding": 3}
    metrics.sources.in_flight = lambda: {"PodPopped": 4, "NodeAdd": 1}
    counts["active"] = 5
    assert value(metrics, "scheduler_pending_pods", queue="active") == 5
    assert value(metrics, "scheduler_pending_pods", queue="gated") == 2
    assert value(metrics, "scheduler_cache_size", type="nodes") == 7
    assert value(metrics, "scheduler_goroutines", operation="binding") == 3
    assert value(metrics, "scheduler_inflight_events", event="PodPopped") == 4
    assert value(metrics, "scheduler_inflight_events", event="NodeAdd") == 1


def test_a_rejected_pod_counts_for_each_plugin_that_rejected_it() -> None:
    metrics = SchedulerMetrics()
    one, two = (QueuedPod(make_pod(name).build(), 0.0) for name in ("one", "two"))
    one.unschedulable_plugins = frozenset({"NodeResourcesFit", "TaintToleration"})
    two.unschedulable_plugins = frozenset({"NodeResourcesFit"})
    metrics.sources.queued = lambda: [one, two]
    name, profile = "scheduler_unschedulable_pods", "default-scheduler"
    assert value(metrics, name, plugin="NodeResourcesFit", profile=profile) == 2
    assert value(metrics, name, plugin="TaintToleration", profile=profile) == 1


def test_requests_are_counted_by_code_and_streams_are_not_timed() -> None:
    metrics = SchedulerMetrics()
    metrics.requested("GET", "host", 200, 0.01)
    metrics.requested("GET", "host", 200, None)
    metrics.requested("POST", "host", "<error>", 1.0)
    assert value(metrics, "rest_client_requests_total", code="200", host="host", method="GET") == 2
    assert value(metrics, "rest_client_requests_total", code="<error>", host="host", method="POST") == 1
    assert value(metrics, "rest_client_request_duration_seconds_count", host="host", verb="GET") == 1


def test_waiting_for_a_turn_is_timed_by_method() -> None:
    metrics = SchedulerMetrics()
    metrics.held_up("host", "POST", 0.0)
    metrics.held_up("host", "POST", 0.3)
    name = "rest_client_rate_limiter_duration_seconds"
    assert value(metrics, f"{name}_bucket", host="host", verb="POST", le="0.005") == 1
    assert value(metrics, f"{name}_count", host="host", verb="POST") == 2


def test_disabled_metrics_are_not_shown() -> None:
    metrics = SchedulerMetrics()
    metrics.disabled = frozenset({"scheduler_preemption_attempts_total"})
    text = metrics.render().decode()
    assert "scheduler_preemption_attempts_total" not in text
    assert "scheduler_preemption_victims" in text


def test_the_process_itself_is_measured_and_nothing_is_named_created() -> None:
    metrics = SchedulerMetrics()
    metrics.leading(True)
    text = metrics.render().decode()
    assert "process_resident_memory_bytes" in text or not Path("/proc/self/stat").exists()
    assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in text
    assert "_created" not in text


@pytest.mark.parametrize(
    ("name", "lowest", "highest", "count"),
    [
        ("scheduler_scheduling_attempt_duration_seconds", 0.001, 16.384, 15),
        ("scheduler_scheduling_algorithm_duration_seconds", 0.001, 16.384, 15),
        ("scheduler_pod_scheduling_sli_duration_seconds", 0.01, 5242.88, 20),
        ("scheduler_pod_scheduling_attempts", 1, 16, 5),
        ("scheduler_preemption_victims", 1, 64, 7),
        ("scheduler_permit_wait_duration_seconds", 0.001, 16.384, 15),
        ("scheduler_framework_extension_point_duration_seconds", 0.0001, 0.2048, 12),
        ("rest_client_request_duration_seconds", 0.005, 60, 12),
        ("rest_client_rate_limiter_duration_seconds", 0.005, 60, 12),
    ],
)
def test_histograms_have_upstreams_buckets(name: str, lowest: float, highest: float, count: int) -> None:
    metrics = SchedulerMetrics()
    metrics.attempted("p", "scheduled", 1)
    metrics.bound("p", 1, 1)
    metrics.point("p", "Bind", "Success", 1)
    metrics.permit_waited("allowed", 1)
    metrics.requested("GET", "host", 200, 1)
    metrics.held_up("host", "GET", 1)
    bounds = {float(dict(labels)["le"]) for sample, labels in samples(metrics) if sample == f"{name}_bucket"}
    assert sorted(bounds)[:-1][0] == pytest.approx(lowest)
    assert sorted(bounds)[:-1][-1] == pytest.approx(highest)
    assert len(bounds) == count + 1


def test_buckets_are_upstreams() -> None:
    assert exponential(0.001, 2, 15)[-1] == 16.384
    assert exponential(1, 2, 5) == [1, 2, 4, 8, 16]
