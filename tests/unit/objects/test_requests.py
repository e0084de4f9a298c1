"""The expected amounts were checked against kube-scheduler's own computation."""

from typing import Any

import pytest

from stowplan.objects import placed_nonzero_request, placed_request
from stowplan.objects.quantity import AMOUNT_MAX
from stowplan.testing.builders import PodBuilder, make_pod

MI = 1024 * 1024


def amounts(cpu: int, memory: int) -> dict[str, int]:
    return {"cpu": cpu, "memory": memory}


def pod_with_status(
    *, requests: Any, resources: Any = None, allocated: Any = None, reason: str = ""
) -> PodBuilder:
    reported: dict[str, Any] = {"name": "main-0"}
    if resources is not None:
        reported["resources"] = {"requests": resources}
    if allocated is not None:
        reported["allocatedResources"] = allocated
    pod = make_pod("a").requests(requests).status(containerStatuses=[reported])
    if reason:
        pod.status(conditions=[{"type": "PodResizePending", "status": "True", "reason": reason}])
    return pod


@pytest.mark.parametrize("more", [{}, {"overhead": {"memory": "0"}}])
def test_what_a_pod_asks_for_is_neither_negative_nor_more_than_can_be_added_up(more: Any) -> None:
    """Else a pod could make room for others, or its node's sums would wrap around."""
    for quantity, counted in (
        ("-1", 0),
        ("-8Ei", 0),
        ("9223372036854775807", AMOUNT_MAX),
        ("1e30", AMOUNT_MAX),
    ):
        pod = make_pod("a").requests(cpu=quantity, memory=quantity).spec(**more).build()
        assert pod.spec.request == placed_request(pod) == amounts(counted, counted)
        assert placed_nonzero_request(pod) == amounts(counted, counted)
        reported = pod_with_status(
            requests={"cpu": 1, "memory": 1}, resources={"cpu": quantity, "memory": quantity}
        )
        assert placed_request(reported.build()) == amounts(max(counted, 1000), max(counted, 1))


def test_containers_add_up() -> None:
    pod = (
        make_pod("a")
        .container(requests={"cpu": "100m", "memory": "1Mi"})
        .container(requests={"cpu": "1"})
        .build()
    )
    assert pod.spec.request == amounts(1100, MI)


def test_parts_are_added_before_rounding_up() -> None:
    pod = make_pod("a").container(requests={"cpu": "0.5m"}).container(requests={"cpu": "0.5m"}).build()
    assert pod.spec.request == {"cpu": 1}


def test_init_containers_count_only_where_they_need_more_than_what_follows() -> None:
    pod = (
        make_pod("a")
        .container(requests={"cpu": "2", "memory": "1Mi"})
        .container(init=True, requests={"cpu": "1", "memory": "5Mi"})
        .container(init=True, requests={"cpu": "3"})
        .build()
    )
    assert pod.spec.request == amounts(3000, 5 * MI)


def test_sidecars_add_to_what_starts_after_them_and_to_what_runs() -> None:
    pod = (
        make_pod("a")
        .container(requests={"cpu": "1"})
        .container(init=True, requests={"cpu": "4"})
        .container(init=True, restartPolicy="Always", requests={"cpu": "2"})
        .container(init=True, requests={"cpu": "3"})
        .build()
    )
    assert pod.spec.request == {"cpu": 5000}


def test_requests_of_the_whole_pod_replace_the_sum_of_containers() -> None:
    pod = (
        make_pod("a")
        .requests({"cpu": "4", "memory": "1Mi", "example.com/gpu": 1})
        .spec(resources={"requests": {"cpu": "1", "hugepages-2Mi": "2Mi", "example.com/gpu": 7}})
        .build()
    )
    assert pod.spec.request == {"cpu": 1000, "memory": MI, "hugepages-2Mi": 2 * MI, "example.com/gpu": 1}


def test_overhead_is_added_at_the_end() -> None:
    pod = make_pod("a").requests(cpu="1").spec(overhead={"cpu": "250m", "memory": "1Mi"}).build()
    assert pod.spec.request == amounts(1250, MI)


def test_scoring_counts_defaults_for_each_container_that_names_nothing() -> None:
    pod = make_pod("a").container(requests={"cpu": "0"}).container().container(init=True).build()
    assert pod.spec.request == {"cpu": 0}
    assert pod.spec.scoring_request == pod.spec.nonzero_request == amounts(100, 400 * MI)


def test_scoring_ignores_requests_of_the_whole_pod_until_it_is_placed() -> None:
    pod = make_pod("a").container().spec(resources={"requests": {"cpu": "3"}}).build()
    assert pod.spec.scoring_request == amounts(100, 200 * MI)
    assert pod.spec.nonzero_request == amounts(3000, 200 * MI)


def test_placed_pod_without_reported_resources_uses_the_shared_amounts() -> None:
    pod = make_pod("a").requests(cpu="1").on_node("n").status(containerStatuses=[{"name": "main-0"}]).build()
    assert placed_request(pod) is pod.spec.request
    assert placed_nonzero_request(pod) is pod.spec.nonzero_request


@pytest.mark.parametrize(
    ("resources", "allocated", "reason", "cpu"),
    [
        ({"cpu": "3"}, {"cpu": "1"}, "", 3000),
        ({"cpu": "1"}, {"cpu": "4"}, "", 4000),
        ({"cpu": "1"}, {"cpu": "1"}, "", 2000),
        ({"cpu": "1"}, {"cpu": "1500m"}, "Deferred", 2000),
        ({"cpu": "1"}, {"cpu": "1500m"}, "Infeasible", 1500),
        ({"cpu": "1"}, None, "Infeasible", 1000),
        # What was allocated counts only beside what is in effect.
        (None, {"cpu": "4"}, "", 2000),
    ],
)
def test_placed_container_counts_the_most_of_declared_allocated_and_in_effect(
    resources: Any, allocated: Any, reason: str, cpu: int
) -> None:
    pod = pod_with_status(
        requests={"cpu": "2"}, resources=resources, allocated=allocated, reason=reason
    ).build()
    assert placed_request(pod) == {"cpu": cpu}
    assert placed_nonzero_request(pod) == amounts(cpu, 200 * MI)


def test_status_of_init_containers_counts_for_sidecars_only() -> None:
    reported = [{"name": name, "resources": {"requests": {"cpu": "9"}}} for name in ("init-0", "init-1")]
    pod = (
        make_pod("a")
        .container(init=True, requests={"cpu": "1"})
        .container(init=True, requests={"cpu": "2"}, restartPolicy="Always")
        .status(initContainerStatuses=reported)
        .build()
    )
    assert placed_request(pod) == {"cpu": 9000}


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ({"resources": {"requests": {"cpu": "3"}}}, "", amounts(3000, MI)),
        ({"resources": {"requests": {"cpu": "3"}}}, "Infeasible", amounts(3000, 0)),
        ({"resources": {}, "allocatedResources": {"cpu": "5"}}, "", amounts(5000, MI)),
        ({"allocatedResources": {"cpu": "5"}}, "", amounts(2000, MI)),
    ],
)
def test_resize_of_the_whole_pod(status: dict[str, Any], reason: str, expected: dict[str, int]) -> None:
    pod = make_pod("a").spec(resources={"requests": {"cpu": "2", "memory": "1Mi"}}).status(**status)
    if reason:
        pod.status(conditions=[{"type": "PodResizePending", "status": "True", "reason": reason}])
    assert placed_request(pod.build()) == expected
