"""What a scheduler and a shadow send, and when they may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from stowplan.cli.main import CommandError
from stowplan.cli.process import Process, RunSettings
from stowplan.cli.running import SchedulerProcess
from stowplan.cli.shadowing import ShadowProcess
from stowplan.config.defaults import default_configuration
from stowplan.config.profiles import known_plugins, resolve_profiles
from stowplan.kube.errors import ApiError
from stowplan.kube.kubeconfig import KubeconfigError
from stowplan.objects import Pod
from stowplan.ops.logs import Logs, LogSettings
from stowplan.ops.server import ServerSettings
from stowplan.plugins import IN_TREE
from tests.unit.kube.fakeserver import Exchange, FakeServer, eventually, ok, serving

POD = Pod(name="web", namespace="shop", uid="u-1")
Test = Callable[[Process, FakeServer], Awaitable[None]]


def run(kind: type[Process], folder: Path, test: Test, *, qps: float = -1.0, burst: int = 1) -> None:
    async def main() -> None:
        async with serving(ok) as server:
            process = kind(settings_for(server, folder, qps, burst), Logs(LogSettings()))
            try:
                async with asyncio.timeout(20):
                    await test(process, server)
            finally:
                await process.close()

    asyncio.run(main())


def settings_for(server: FakeServer, folder: Path, qps: float, burst: int) -> RunSettings:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}]}}"
    )
    configuration = default_configuration()
    connection = msgspec.structs.replace(
        configuration.client_connection, kubeconfig=str(kubeconfig), qps=qps, burst=burst
    )
    configuration = msgspec.structs.replace(configuration, client_connection=connection)
    return RunSettings(configuration, resolve_profiles(configuration, known_plugins(IN_TREE)))


def test_requests_are_as_many_a_second_as_the_configuration_says(tmp_path: Path) -> None:
    """The events have a rate of their own, and the lease has none."""

    async def test(process: Process, server: FakeServer) -> None:
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        assert len(process._clients) == 3
        for client in process._clients:
            client._bucket._clock = lambda: 0.0
            client._bucket._filled = 0.0
            client._bucket._sleep = sleep
            for _ in range(4):
                await client.get_plain("/version")
        assert slept == pytest.approx([0.5, 1.0] * 2)

    run(SchedulerProcess, tmp_path, test, qps=2.0, burst=2)


def test_without_the_lease_nothing_is_written(tmp_path: Path) -> None:
    async def test(process: Process, server: FakeServer) -> None:
        assert not process.is_leading
        await process.client.get_plain("/version")
        for write in (process.client.bind(POD, "n"), process.client.delete(POD)):
            with pytest.raises(ApiError, match="the lease is not held any more"):
                await write
        assert [request.method for request in server.requests] == ["GET"]

    run(SchedulerProcess, tmp_path, test)


def test_what_waited_while_the_lease_was_lost_is_not_sent_any_more(tmp_path: Path) -> None:
    async def test(process: Process, server: FakeServer) -> None:
        gate = asyncio.Event()

        async def wait(exchange: Exchange) -> None:
            await gate.wait()
            await ok(exchange)

        server.handler = wait
        assert isinstance(process, SchedulerProcess) and process.elector is not None
        process.elector._renewed_at = process.elector._clock()
        assert process.is_leading
        binds = [asyncio.ensure_future(process.client.bind(POD, "n")) for _ in range(100)]
        await eventually(lambda: server.requests)
        await asyncio.sleep(0.05)
        sent = len(server.requests)
        assert 0 < sent < 100
        process.elector._renewed_at = None
        gate.set()
        came = await asyncio.gather(*binds, return_exceptions=True)
        assert len(server.requests) == sent
        assert came.count(None) == sent
        assert {type(problem) for problem in came if problem is not None} == {ApiError}

    run(SchedulerProcess, tmp_path, test)


def test_a_shadow_writes_nothing_whatever_asks_for_it(tmp_path: Path) -> None:
    async def test(process: Process, server: FakeServer) -> None:
        await process.client.get_plain("/version")
        with pytest.raises(PermissionError, match="a shadow only reads"):
            await process.client.bind(POD, "n")
        assert [request.method for request in server.requests] == ["GET"]

    run(ShadowProcess, tmp_path, test)


def test_a_port_that_is_taken_comes_with_advice(tmp_path: Path) -> None:
    async def test(process: Process, server: FakeServer) -> None:
        taken = int(server.url.rpartition(":")[2])
        with pytest.raises(CommandError, match="address already in use; --secure-port names another port"):
            await process._serve(ServerSettings(address="127.0.0.1", port=taken))

    run(SchedulerProcess, tmp_path, test)


def test_a_static_pod_serves_without_a_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the variables of a pod and nothing to identify itself by."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    async def test(process: Process, server: FakeServer) -> None:
        await process._serve(ServerSettings(address="127.0.0.1", port=0))
        assert process._server is not None and process._server.port
        assert "nobody to ask about authentication without --authentication-kubeconfig" in caplog.text
        with pytest.raises(KubeconfigError, match="/no/kubeconfig: No such file"):
            process._reviewer("authorization", "/no/kubeconfig")

    run(SchedulerProcess, tmp_path, test)
