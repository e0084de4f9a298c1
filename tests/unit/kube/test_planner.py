"""Decisions are carried out, and nothing is done twice that must not be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stowplan.engine.planner import Planner, PodCondition
from stowplan.kube.errors import ApiError, CredentialsError, UncertainError, UnreachableError
from stowplan.kube.planner import KubePlanner
from stowplan.objects import Condition, Pod
from stowplan.objects.pod import PodStatus
from tests.unit.kube.virtualtime import VirtualTime

POD = Pod(name="web-1", namespace="shop", uid="u-1", generation=3)
NO_ROOM = PodCondition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")


class OneClient:
    """Answers with what the test lined up; None is success. A look at the pod may be in vain at first."""

    def __init__(
        self, *answers: Exception | None, pod: Pod | ApiError | None = None, in_vain: Sequence[ApiError] = ()
    ) -> None:
        self.answers = list(answers)
        self.pod = pod
        self.in_vain = list(in_vain)
        self.calls: list[tuple[Any, ...]] = []

    def _answer(self, *call: Any) -> None:
        self.calls.append(call)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    async def bind(self, pod: Pod, node_name: str) -> None:
        self._answer("bind", pod.name, node_name)

    async def get(self, kind: Any, name: str, namespace: str = "") -> Pod:
        self.calls.append(("get", kind.name, namespace, name))
        if self.in_vain:
            raise self.in_vain.pop(0)
        if isinstance(self.pod, ApiError):
            raise self.pod
        assert self.pod is not None
        return self.pod

    async def patch(self, obj: Any, patch: Any, *, subresource: str = "") -> None:
        self._answer("patch", obj.key, patch, subresource)

    async def patch_status(self, obj: Any, patch: Any) -> None:
        self._answer("patch", obj.key, patch, "status")

    async def delete(self, obj: Any) -> None:
        self._answer("delete", obj.key)

    create = update = delete


def planner(client: Any) -> tuple[KubePlanner, list[float]]:
    time = VirtualTime()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    class Silent:
        def record(self, *_: Any, **__: Any) -> None:
            """Nobody listens."""

    silent: Any = Silent()
    return KubePlanner(client, silent, wall_clock=time.clock, sleep=sleep, random=lambda: 0.0), slept


def test_it_is_what_the_engine_wants() -> None:
    wanted: Planner = planner(OneClient())[0]
    assert wanted.record is not None


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        (POD.placed_on("n-1"), None),
        (POD.placed_on("n-2"), "already assigned to node 'n-2'"),
        (ApiError(404, "NotFound", "gone"), 'pods "web-1" not found'),
        (Pod(name="web-1", namespace="shop", uid="u-2"), 'pods "web-1" not found'),
        (POD, "cut"),
        (ApiError(403, "Forbidden", "may not get pods"), "cut"),
    ],
)
def test_a_bind_whose_answer_is_lost_is_looked_up(now: Pod | ApiError, outcome: str | None) -> None:
    client = OneClient(UncertainError("cut"), pod=now)
    carry_out = planner(client)[0].bind(POD, "n-1")
    if outcome is None:
        asyncio.run(carry_out)
    else:
        with pytest.raises(ApiError, match=outcome) as raised:
            asyncio.run(carry_out)
        assert isinstance(raised.value, UncertainError) == (outcome == "cut")
    assert client.calls == [("bind", "web-1", "n-1"), ("get", "Pod", "shop", "web-1")]


@pytest.mark.parametrize("now", [POD.placed_on("n-1"), POD])
def test_nobody_knows_what_came_of_a_bind_until_the_server_is_back(now: Pod) -> None:
    """Its room must not be given to another pod in the meantime."""
    away = [
        UnreachableError("refused"),
        UncertainError("cut"),
        ApiError(503, "x", "x"),
        ApiError(429, "x", "x"),
    ]
    client = OneClient(UncertainError("cut"), pod=now, in_vain=away * 2)
    plan, slept = planner(client)
    if now.node_name:
        asyncio.run(plan.bind(POD, "n-1"))
    else:
        with pytest.raises(UncertainError):
            asyncio.run(plan.bind(POD, "n-1"))
    assert slept == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert [call[0] for call in client.calls] == ["bind", *["get"] * 9]


@pytest.mark.parametrize(
    "no",
    [
        ApiError(409, "Conflict", "already assigned"),
        ApiError(500, "InternalError", "etcdserver: request timed out"),
        ApiError(504, "Timeout", "request did not complete within requested timeout"),
    ],
)
def test_a_no_that_may_be_a_yes_is_looked_up(no: ApiError) -> None:
    client = OneClient(no, no, pod=POD.placed_on("n-1"))
    asyncio.run(planner(client)[0].bind(POD, "n-1"))
    with pytest.raises(ApiError) as raised:
        asyncio.run(planner(client)[0].bind(POD, "n-2"))
    assert raised.value is no
    assert [call[0] for call in client.calls] == ["bind", "get"] * 2


@pytest.mark.parametrize(
    "no",
    [
        ApiError(404, "NotFound", "gone"),
        ApiError(422, "Invalid", "x"),
        ApiError(429, "TooManyRequests", "x"),
        UnreachableError("refused"),
        CredentialsError("the token file is gone"),
    ],
)
def test_a_bind_that_is_refused_is_refused(no: ApiError) -> None:
    client = OneClient(no)
    with pytest.raises(ApiError) as raised:
        asyncio.run(planner(client)[0].bind(POD, "n-1"))
    assert raised.value is no
    assert client.calls == [("bind", "web-1", "n-1")]


@pytest.mark.parametrize(
    ("now", "place"), [(POD.placed_on("n-1"), "n-1"), (POD, ""), (ApiError(404, "NotFound", "gone"), None)]
)
def test_where_a_pod_is(now: Pod | ApiError, place: str | None) -> None:
    assert asyncio.run(planner(OneClient(pod=now))[0].placed_on(POD)) == place


def patched(pod: Pod, **what: Any) -> list[tuple[Any, ...]]:
    client = OneClient()
    asyncio.run(planner(client)[0].patch_status(pod, **what))
    return client.calls


def with_status(**status: Any) -> Pod:
    return Pod(name="web-1", namespace="shop", uid="u-1", generation=3, status=PodStatus(**status))


def having(status: str, message: str, generation: int = 3) -> Pod:
    condition = Condition(
        type="PodScheduled",
        status=status,
        reason="Unschedulable",
        message=message,
        observed_generation=generation,
    )
    return with_status(conditions=(Condition(type="Ready", status="False"), condition))


def test_a_new_condition_has_the_time() -> None:
    assert patched(POD, condition=NO_ROOM, nominated_node="n-1") == [
        (
            "patch",
            "shop/web-1",
            {
                "metadata": {"uid": "u-1"},
                "status": {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/3 nodes are available",
                            "observedGeneration": 3,
                            "lastTransitionTime": "1970-01-01T00:16:40Z",
                        }
                    ],
                    "nominatedNodeName": "n-1",
                },
            },
            "status",
        )
    ]


def test_what_cannot_be_encoded_is_written_as_well_as_it_can() -> None:
    """A plugin's words may come from a file name, or from a program that cuts texts in the middle."""
    torn = NO_ROOM._replace(message="half a \ud83d")
    ((_, _, patch, _),) = patched(POD, condition=torn)
    assert patch["status"]["conditions"][0]["message"] == "half a \ufffd"
    assert not patched(having("False", "half a \ufffd"), condition=torn)


@pytest.mark.parametrize(
    ("pod", "writes", "turns"),
    [
        (having("False", "0/3 nodes are available"), False, False),
        (having("False", "0/2 nodes are available"), True, False),
        (having("False", "0/3 nodes are available", generation=2), True, False),
        (having("True", "0/3 nodes are available"), True, True),
    ],
)
def test_a_condition_is_written_when_it_changed(pod: Pod, writes: bool, turns: bool) -> None:
    calls = patched(pod, condition=NO_ROOM)
    assert bool(calls) == writes
    if calls:
        (condition,) = calls[0][2]["status"]["conditions"]
        assert ("lastTransitionTime" in condition) == turns


@pytest.mark.parametrize(
    ("there", "wanted", "written"),
    [
        ("", "n-1", {"nominatedNodeName": "n-1"}),
        ("n-1", "", {"nominatedNodeName": None}),
        ("n-1", "n-1", None),
        ("n-1", None, None),
        ("", "", None),
    ],
)
def test_the_nominated_node_is_set_and_cleared(
    there: str, wanted: str | None, written: dict[str, Any] | None
) -> None:
    calls = patched(with_status(nominated_node_name=there), nominated_node=wanted)
    assert [call[2]["status"] for call in calls] == ([] if written is None else [written])


Work = Callable[[KubePlanner], Any]


def write(plan: KubePlanner) -> Any:
    return plan.patch_status(POD, nominated_node="n")


@pytest.mark.parametrize(
    "problem",
    [
        ApiError(500, "InternalError", "x"),
        ApiError(503, "ServiceUnavailable", "x"),
        ApiError(409, "Conflict", "x"),
        UnreachableError("x"),
        UncertainError("x"),
    ],
)
def test_a_status_is_written_in_four_attempts(problem: ApiError) -> None:
    client = OneClient(problem, problem, problem)
    plan, slept = planner(client)
    asyncio.run(write(plan))
    assert len(client.calls) == 4
    assert slept == [0.01, 0.05, 0.25]
    client.answers = [problem] * 4
    with pytest.raises(ApiError):
        asyncio.run(write(plan))


@pytest.mark.parametrize("code", [400, 403, 422])
def test_other_refusals_are_final(code: int) -> None:
    client = OneClient(ApiError(code, "x", "no"))
    with pytest.raises(ApiError):
        asyncio.run(write(planner(client)[0]))
    assert len(client.calls) == 1


ANOTHER = 'Pod "web-1" is invalid: metadata.uid: Invalid value: "u-1": field is immutable'
"""What an API server says to a patch with the uid of an earlier pod of the same name."""


@pytest.mark.parametrize("gone", [ApiError(404, "NotFound", "x"), ApiError(422, "Invalid", ANOTHER)])
def test_a_pod_that_is_gone_needs_no_status(gone: ApiError) -> None:
    client = OneClient(gone)
    asyncio.run(write(planner(client)[0]))
    assert len(client.calls) == 1


@pytest.mark.parametrize(
    ("problem", "attempts"),
    [
        (None, 1),
        (ApiError(404, "NotFound", "x"), 1),
        (ApiError(409, "Conflict", "uid"), 1),
        (UncertainError("x"), 2),
    ],
)
def test_evicting_what_is_gone_is_no_error(problem: Exception | None, attempts: int) -> None:
    client = OneClient(problem)
    asyncio.run(planner(client)[0].evict(POD))
    assert client.calls == [("delete", "shop/web-1")] * attempts


def test_evicting_may_be_forbidden() -> None:
    client = OneClient(ApiError(403, "Forbidden", "no"))
    with pytest.raises(ApiError, match="no"):
        asyncio.run(planner(client)[0].evict(POD))
