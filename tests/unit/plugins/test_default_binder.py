"""DefaultBinder: asks the client to bind, and hides nothing that goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import CycleState
from stowplan.framework.handle import Host, ReadOnlyClient
from stowplan.framework.profile import Profile, ProfilePlan
from stowplan.framework.registry import register
from stowplan.objects import Pod
from stowplan.plugins.default_binder import DefaultBinder
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin


class NotingClient(ReadOnlyClient):
    """Takes down what is bound where."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []

    async def bind(self, pod: Pod, node_name: str) -> None:  # type: ignore[override]
        self.bound.append((pod.key, node_name))


def test_the_pod_is_bound_to_the_node() -> None:
    client = NotingClient()
    plan = ProfilePlan(points={"bind": ("DefaultBinder",)}, args={"DefaultBinder": None})
    profile = Profile(plan, register([DefaultBinder]), Host(Cluster(), client=client))
    (binder,) = profile.binds
    assert asyncio.run(binder.bind(CycleState(), make_pod("p").build(), "n1")) is None
    assert client.bound == [("default/p", "n1")]


def test_what_the_client_raises_is_not_swallowed() -> None:
    binder = build_plugin(DefaultBinder, Cluster())
    with pytest.raises(PermissionError, match="default/p is not bound to n1"):
        asyncio.run(binder.bind(CycleState(), make_pod("p").build(), "n1"))
