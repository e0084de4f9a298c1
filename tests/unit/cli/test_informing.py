"""Which kinds are followed, and what is said of those that cannot be."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from stowplan.cli.informing import Informers
from stowplan.config.defaults import default_configuration
from stowplan.config.profiles import known_plugins, resolve_profiles
from stowplan.kube.errors import ApiError
from stowplan.kube.transport import Answer
from stowplan.objects import KubeObject, ListPage, ObjectKind, decode_object
from stowplan.plugins import IN_TREE

PROFILES = resolve_profiles(default_configuration(), known_plugins(IN_TREE))
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns", "uid": "1"}}


class FakeClient:
    """Lists one pod and nothing else; some collections are missing or forbidden."""

    def __init__(self, refused: dict[str, int] | None = None) -> None:
        self.refused = refused or {}
        self.asked: list[str] = []

    async def request(self, method: str, target: str, body: bytes = b"", **how: Any) -> Answer:
        collection = target.partition("?")[0].rpartition("/")[2]
        self.asked.append(target)
        if collection in self.refused:
            raise ApiError(self.refused[collection], "No", f"{collection} is not for you")
        items = [POD] if collection == "pods" else []
        return Answer(200, (), msgspec.json.encode({"metadata": {"resourceVersion": "5"}, "items": items}))

    async def stream(self, target: str, on_data: Any, *, idle_timeout: float) -> None:
        await asyncio.Event().wait()

    async def list_page(self, kind: ObjectKind, *, continue_token: str = "") -> ListPage:
        if kind.name == "Node":
            return ListPage(items=())
        if continue_token:
            return ListPage(items=(decode_object(POD),))
        return ListPage(items=(), continue_token="more")


def follow(
    client: FakeClient, wait: bool = True
) -> tuple[Informers, list[tuple[KubeObject | None, KubeObject | None]]]:
    seen: list[tuple[KubeObject | None, KubeObject | None]] = []

    async def go() -> Informers:
        informers = Informers(client, PROFILES, lambda old, new: seen.append((old, new)))  # type: ignore[arg-type]
        assert informers.problem() is not None
        tasks = []
        informers.start(lambda work: tasks.append(asyncio.ensure_future(work)))
        if wait:
            await asyncio.wait_for(informers.settled(), 5)
        else:
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return informers

    return asyncio.run(go()), seen


def test_everything_the_plugins_look_at_is_read_and_told() -> None:
    client = FakeClient()
    informers, seen = follow(client)
    assert [new.key for _, new in seen if new is not None] == ["ns/p"]
    assert informers.pods["ns/p"].name == "p"
    assert [pod.name for pod in informers.pods_now()] == ["p"]
    assert informers.problem() is None
    asked = {target.partition("?")[0].rpartition("/")[2] for target in client.asked}
    assert {"nodes", "pods", "resourceclaims", "csinodes", "poddisruptionbudgets", "namespaces"} <= asked
    pods = next(target for target in client.asked if "/pods?" in target)
    assert "fieldSelector=status.phase%21%3DSucceeded" in pods


def test_a_kind_that_is_not_there_disables_what_needs_it_and_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        informers, _ = follow(FakeClient({"resourceclaims": 404, "csinodes": 403}))
    assert informers.problem() is None
    said = [record.message for record in caplog.records if "cannot be read" in record.message]
    assert len(said) == 2
    assert any(text.startswith("resourceclaims cannot be read, so DynamicResources") for text in said)
    assert any("NodeVolumeLimits, VolumeBinding" in text for text in said)


def test_without_nodes_there_is_no_beginning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        informers, _ = follow(FakeClient({"nodes": 403}), wait=False)
    assert informers.problem() == "handlers are not fully synchronized: nodes"
    assert "nothing can be scheduled while nodes cannot be read" in caplog.text


def test_what_was_there_before_counts_when_it_cannot_be_read_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = FakeClient()
    informers, _ = follow(client)
    for kind, reflector in informers._reflectors.items():
        if kind.__name__ in ("Node", "ResourceClaim"):
            reflector._after(ApiError(403, "Forbidden", "not for you any more"))
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"{kind} cannot be read any more, so they count as last seen: not for you any more"
        for kind in ("nodes", "resourceclaims")
    ]
    assert informers.problem() is None


def test_the_truth_is_fetched_page_by_page() -> None:
    informers = Informers(FakeClient(), PROFILES, lambda old, new: None)  # type: ignore[arg-type]
    truth = asyncio.run(informers.fetch())
    assert truth.nodes == ()
    assert [pod.name for pod in truth.pods] == ["p"]
