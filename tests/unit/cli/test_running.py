"""What a scheduler and a shadow may write, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from stowplan.cli.process import Process, RunSettings
from stowplan.cli.running import SchedulerProcess
from stowplan.cli.shadowing import ShadowProcess
from stowplan.config.defaults import default_configuration
from stowplan.config.profiles import known_plugins, resolve_profiles
from stowplan.kube.errors import ApiError
from stowplan.objects import Pod
from stowplan.ops.logs import Logs, LogSettings
from stowplan.plugins import IN_TREE
from tests.unit.kube.fakeserver import Exchange, FakeServer, eventually, ok, serving

POD = Pod(name="web", namespace="shop", uid="u-1")
Test = Callable[[Process, FakeServer], Awaitable[None]]


def run(kind: type[Process], folder: Path, test: Test) -> None:
    async def main() -> None:
        async with serving(ok) as server:
            process = kind(settings_for(server, folder), Logs(LogSettings()))
            try:
                async with asyncio.timeout(20):
                    await test(process, server)
            finally:
                await process.close()

    asyncio.run(main())


def settings_for(server: FakeServer, folder: Path) -> RunSettings:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}]}}"
    )
    configuration = default_configuration()
    connection = msgspec.structs.replace(
        configuration.client_connection, kubeconfig=str(kubeconfig), qps=-1.0
    )
    configuration = msgspec.structs.replace(configuration, client_connection=connection)
    return RunSettings(configuration, resolve_profiles(configuration, known_plugins(IN_TREE)))


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
