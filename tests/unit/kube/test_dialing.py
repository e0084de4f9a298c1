"""TLS, client certificates and proxies, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.kube.access import Access
from stowplan.kube.client import ApiClient
from stowplan.kube.credentials import FileCredentials, StaticCredentials
from stowplan.kube.dialing import Proxy, parse_proxy
from stowplan.kube.errors import CredentialsError, UnreachableError
from stowplan.kube.tls import ClientCertificate, Trust
from tests.control_plane.certificates import write_serving_pair
from tests.unit.kube.authority import Authority
from tests.unit.kube.fakeserver import CutNow, Exchange, ok, serving


class Pair:
    """A certificate and its key."""

    def __init__(self, folder: Path, name: str) -> None:
        self.crt, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        write_serving_pair(self.crt, self.key)

    @property
    def trust(self) -> Trust:
        return Trust(self.crt.read_text())

    def context(self, clients: Path | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.crt, self.key)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients)
        return context


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("server"), "server")


@contextlib.asynccontextmanager
async def client_of(**access: Any) -> AsyncIterator[ApiClient]:
    async def no_pause(_: float) -> None:
        """Retries at once."""

    client = ApiClient(Access(**access), sleep=no_pause)
    try:
        yield client
    finally:
        await client.close()


def test_sessions_are_taken_up_again(pair: Pair) -> None:
    reused: list[bool] = []

    async def note(exchange: Exchange) -> None:
        reused.append(exchange.writer.get_extra_info("ssl_object").session_reused)
        await asyncio.sleep(0.02)
        await ok(exchange)

    async def main() -> None:
        async with (
            serving(note, pair.context()) as server,
            client_of(server=server.url, trust=pair.trust) as client,
        ):
            await client.get_plain("/")
            await asyncio.gather(*(client.get_plain("/") for _ in range(4)))
            assert server.connections == 4
        assert sorted(reused) == [False, False, True, True, True]  # the first connection served two

    asyncio.run(main())


def test_the_server_is_checked(pair: Pair, tmp_path: Path) -> None:
    stranger = Pair(tmp_path, "stranger")

    async def main() -> None:
        async with serving(ok, pair.context()) as server:
            for trust, said in (
                (stranger.trust, "certificate verify failed"),
                (
                    Trust(pair.trust.authorities, server_name="kube.example.com"),
                    "not valid for 'kube.example",
                ),
                (Trust("no PEM at all"), "(?i)pem|certificate"),
                (Trust(), "certificate verify failed"),
            ):
                async with client_of(server=server.url, trust=trust) as client:
                    with pytest.raises(UnreachableError, match=said):
                        await client.get_plain("/")
            assert not server.requests
            for trust in (Trust(insecure=True), Trust(pair.trust.authorities, server_name="localhost")):
                async with client_of(server=server.url, trust=trust) as client:
                    assert await client.get_plain("/") == {}

    asyncio.run(main())


def test_a_client_certificate_is_shown_and_its_successor_too(pair: Pair, tmp_path: Path) -> None:
    authority = Authority()
    certificate, key, known = tmp_path / "me.crt", tmp_path / "me.key", tmp_path / "clients.crt"
    known.write_bytes(authority.pem)
    serials: list[str] = []

    def hand_out() -> None:
        issued = authority.issue("me")
        certificate.write_bytes(issued.certificate)
        key.write_bytes(issued.key)

    async def note(exchange: Exchange) -> None:
        shown = exchange.writer.get_extra_info("peercert")
        serials.append(shown["serialNumber"])
        if len(serials) == 2:  # expired, says the server
            await exchange.reply(401, {"code": 401, "message": "Unauthorized"})
        else:
            await ok(exchange)

    async def main() -> None:
        hand_out()
        credentials = FileCredentials(lambda: 0.0, certificate_file=certificate, key_file=key)
        access = {"trust": pair.trust, "credentials": credentials}
        async with (
            serving(note, pair.context(known)) as server,
            client_of(server=server.url, **access) as client,
        ):
            await client.get_plain("/")
            hand_out()
            await client.get_plain("/")
            assert len(serials) == 3
            assert serials[0] == serials[1] != serials[2]

    asyncio.run(main())


def test_a_certificate_that_cannot_be_used_is_an_error_without_its_content(pair: Pair) -> None:
    async def main() -> None:
        credentials = StaticCredentials(b"", ClientCertificate(pair.crt.read_bytes(), b"s3cr3t"))
        access = {"trust": pair.trust, "credentials": credentials}
        async with serving(ok, pair.context()) as server, client_of(server=server.url, **access) as client:
            with pytest.raises(
                UnreachableError, match="the client certificate or its key cannot be used"
            ) as no:
                await client.get_plain("/")
            assert "s3cr3t" not in str(no.value)

    asyncio.run(main())


def test_a_certificate_file_that_is_gone_is_named(pair: Pair, tmp_path: Path) -> None:
    async def main() -> None:
        gone = tmp_path / "gone.crt"
        credentials = FileCredentials(lambda: 0.0, certificate_file=gone, key_file=gone)
        access = {"trust": pair.trust, "credentials": credentials}
        async with serving(ok, pair.context()) as server, client_of(server=server.url, **access) as client:
            with pytest.raises(CredentialsError, match=r"gone.crt: No such file"):
                await client.get_plain("/")

    asyncio.run(main())


async def tunnel(exchange: Exchange) -> None:
    """What an HTTP proxy does with CONNECT."""
    host, _, port = exchange.request.target.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    await exchange.raw(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()

    incoming: Any = exchange.writer.transport.get_protocol()
    tasks = [
        asyncio.ensure_future(copy(incoming._stream_reader, writer)),
        asyncio.ensure_future(copy(reader, exchange.writer)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        writer.transport.abort()
    raise CutNow


@pytest.mark.parametrize("secure", [True, False])
def test_a_proxy_tunnels_to_the_server(pair: Pair, secure: bool) -> None:
    async def main() -> None:
        async with serving(ok, pair.context() if secure else None) as server, serving(tunnel) as proxy:
            through = parse_proxy(f"http://me:p%40ss@127.0.0.1:{proxy.port}")
            async with client_of(server=server.url, trust=pair.trust, proxy=through) as client:
                for _ in range(3):
                    assert await client.get_plain("/") == {}
            assert server.connections == proxy.connections == 1
            (asked,) = proxy.requests
            assert (asked.method, asked.target) == ("CONNECT", f"127.0.0.1:{server.port}")
            assert asked.headers["proxy-authorization"] == "Basic bWU6cEBzcw=="

    asyncio.run(main())


def test_a_proxy_that_refuses_is_quoted(pair: Pair) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    async def nonsense(exchange: Exchange) -> None:
        await exchange.raw(b"hello")
        raise CutNow

    async def main() -> None:
        for handler, said in ((refuse, "407 Proxy Authentication Required"), (nonsense, "did not answer as")):
            async with serving(handler) as proxy:
                through = Proxy("127.0.0.1", proxy.port)
                async with client_of(
                    server="https://10.1.2.3:6443", trust=pair.trust, proxy=through
                ) as client:
                    with pytest.raises(UnreachableError, match=said):
                        await client.get_plain("/")

    asyncio.run(main())


def test_a_proxy_whose_password_has_a_slash_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="no number as its port") as no:
        parse_proxy("http://me:s3cr3t/s3cr3t@proxy:3128")
    assert "s3cr3t" not in str(no.value)


@pytest.mark.parametrize("url", ["socks5://x:1", "https://x:1", "http://"])
def test_proxies_of_other_kinds_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not supported|no host"):
        parse_proxy(url)
