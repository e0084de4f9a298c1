"""An API server that is killed in the middle of everything, and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError
from stowplan.kube.kubeconfig import load_access
from stowplan.kube.planner import KubePlanner
from stowplan.kube.recorder import Recorder
from stowplan.kube.reflector import Reflector
from stowplan.objects import Pod, kind_of_record
from tests.control_plane.plane import ControlPlane, start
from tests.soak.servers import Servers

pytestmark = pytest.mark.control_plane

PODS = kind_of_record(Pod)
COUNT = 300


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """One of its own, because it is killed."""
    with start() as running:
        yield running


@pytest.fixture
def servers(plane: ControlPlane) -> Iterator[Servers]:
    servers = Servers(plane)
    yield servers
    servers.close()


def manifest(name: str) -> dict[str, object]:
    spec = {"containers": [{"name": "main", "image": "pause"}]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_after_an_outage_it_is_known_of_each_binding_whether_it_was_made(
    plane: ControlPlane, servers: Servers
) -> None:
    """And the copy of the pods says the same as those who bound them."""

    async def test(client: ApiClient) -> None:
        for number in range(COUNT):
            await client.create(manifest(f"p{number}"))
        reflector = Reflector(client, PODS, lambda kind, old, new: None)
        following = asyncio.ensure_future(reflector.run())
        await reflector.settled.wait()
        planner = KubePlanner(client, Recorder(client, host="test"))
        pods = [pod for pod in reflector.objects.values() if isinstance(pod, Pod)]
        binds = [asyncio.ensure_future(planner.bind(pod, f"node-of-{pod.name}")) for pod in pods]
        while sum(bind.done() for bind in binds) < COUNT // 4:  # noqa: ASYNC110 -- the server must be busy
            await asyncio.sleep(0)
        servers.kill_api()
        await asyncio.sleep(1)
        waiting = [bind for bind in binds if not bind.done()]
        servers.start_api()
        await asyncio.to_thread(servers.wait_for_api)
        came = await asyncio.gather(*binds, return_exceptions=True)
        assert waiting, "those that were under way must wait until they know"
        assert all(problem is None or isinstance(problem, ApiError) for problem in came)
        bound = {pod.name for pod, problem in zip(pods, came, strict=True) if problem is None}
        assert COUNT // 4 <= len(bound) < COUNT
        items = (await client.get_plain("/api/v1/namespaces/default/pods"))["items"]
        assert {each["metadata"]["name"] for each in items if "nodeName" in each["spec"]} == bound

        def copied() -> set[str]:
            pods = reflector.objects.values()
            return {pod.name for pod in pods if isinstance(pod, Pod) and pod.node_name}

        async with asyncio.timeout(30):
            while copied() != bound:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    async def main() -> None:
        client = ApiClient(load_access(str(plane.kubeconfig), environ={}))
        try:
            async with asyncio.timeout(100):
                await test(client)
        finally:
            await client.close()

    asyncio.run(main())
