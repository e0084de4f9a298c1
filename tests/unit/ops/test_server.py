"""The server as clients meet it: over TLS, with credentials of all kinds."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stowplan.kube.errors import ApiError
from stowplan.ops.authentication import CONFIG_MAP, Authorities, RequestHeaders
from stowplan.ops.certificates import Pair, ServingSettings
from stowplan.ops.endpoints import Pages
from stowplan.ops.health import Check, HealthGroup, HealthMetrics
from stowplan.ops.http import HttpServer, Request, Response
from stowplan.ops.metrics import SchedulerMetrics
from stowplan.ops.server import LookupFailedError, OpsServer, ServerSettings
from stowplan.testing.builders import make_pod
from tests.unit.ops.authority import Authority, Issued

SETTINGS = ServerSettings(address="127.0.0.1", port=0)
Answer = tuple[int, str]


class FakeApi:
    """Answers reviews as an API server would."""

    def __init__(self) -> None:
        self.tokens: dict[str, dict[str, Any]] = {}
        self.allowed: set[tuple[str, str, str]] = set()
        self.reviews: list[Mapping[str, Any]] = []
        self.config_map: dict[str, Any] | None = {}
        self.broken = False

    async def create(self, obj: Mapping[str, Any]) -> Any:
        self.reviews.append(obj)
        if self.broken:
            raise ApiError(0, "Unreachable", "nobody is there")
        if obj["kind"] == "TokenReview":
            user = self.tokens.get(obj["spec"]["token"])
            return {"status": {"authenticated": user is not None, "user": user or {}}}
        spec = obj["spec"]
        asked = spec["nonResourceAttributes"]
        allowed = (spec["user"], asked["verb"], asked["path"]) in self.allowed
        return {"status": {"allowed": allowed, "reason": "" if allowed else "no rule"}}

    async def get_plain(self, target: str) -> dict[str, Any]:
        assert target == CONFIG_MAP
        if self.config_map is None:
            raise ApiError(403, "Forbidden", "may not be read")
        return {"data": self.config_map}

    def count(self, kind: str) -> int:
        return sum(review["kind"] == kind for review in self.reviews)


def the_pages(**changes: Any) -> Pages:
    metrics = HealthMetrics()
    groups = (
        HealthGroup("healthz", (), metrics),
        HealthGroup("readyz", (Check("x", lambda: None),), metrics),
    )
    return replace(Pages(SchedulerMetrics(), groups, metrics), **changes)


@asynccontextmanager
async def serving(
    settings: ServerSettings = SETTINGS, pages: Pages | None = None, api: FakeApi | None = None
) -> AsyncIterator[OpsServer]:
    server = OpsServer(settings, pages or the_pages(), api, api)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def a_context(trust: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trust:
        context.load_verify_locations(cadata=trust)
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask_blocking(
    port: int,
    path: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    issued: Issued | None = None,
    folder: Path | None = None,
    trust: str = "",
    host: str = "",
) -> Answer:
    context = a_context(trust)
    if issued is not None:
        assert folder is not None
        context.load_cert_chain(*issued.write(folder, "client"))
    connection = http.client.HTTPSConnection(host or "127.0.0.1", port, timeout=10, context=context)
    if host:
        original = context.wrap_socket
        context.wrap_socket = lambda sock, **kwargs: original(  # type: ignore[method-assign]
            sock, **{**kwargs, "server_hostname": host}
        )
        connection.host = "127.0.0.1"
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


async def ask(server: OpsServer, path: str, method: str = "GET", **how: Any) -> Answer:
    return await asyncio.to_thread(ask_blocking, server.port, path, method, **how)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def test_anybody_may_ask_for_health_and_for_nothing_else() -> None:
    async def test() -> None:
        async with serving() as server:
            assert await ask(server, "/healthz") == (200, "ok")
            assert await ask(server, "/readyz?verbose") == (200, "[+]x ok\nreadyz check passed\n")
            status, text = await ask(server, "/metrics")
            assert status == 403
            said = json.loads(text)
            assert said["reason"] == "Forbidden"
            assert said["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
            assert (await ask(server, "/healthz/x"))[0] == 403

    run(test)


def test_tokens_are_reviewed_once_and_then_remembered() -> None:
    async def test() -> None:
        api = FakeApi()
        api.tokens["good"] = {"username": "prometheus", "groups": ["monitoring"], "uid": "1"}
        api.allowed.add(("prometheus", "get", "/metrics"))
        async with serving(api=api) as server:
            for _ in range(3):
                status, text = await ask(server, "/metrics", headers=bearer("good"))
                assert status == 200
                assert "scheduler_pending_pods" in text
            assert api.count("TokenReview") == api.count("SubjectAccessReview") == 1
            review = api.reviews[-1]["spec"]
            assert review["groups"] == ["monitoring", "system:authenticated"]
            assert review["uid"] == "1"

            status, text = await ask(server, "/configz", headers=bearer("good"))
            assert status == 403
            assert json.loads(text)["message"].endswith('cannot get path "/configz": no rule')
            assert (await ask(server, "/metrics", "PUT", headers=bearer("good")))[0] == 403

    run(test)


def test_wrong_tokens_are_401_and_remembered_as_such(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        api = FakeApi()
        async with serving(api=api) as server:
            for _ in range(2):
                status, text = await ask(server, "/healthz", headers=bearer("wrong-token"))
                assert status == 401
                assert json.loads(text)["reason"] == "Unauthorized"
            assert api.count("TokenReview") == 1
            assert "wrong-token" not in caplog.text

    run(test)


def test_when_the_api_server_is_away_nobody_gets_in_who_is_not_known() -> None:
    async def test() -> None:
        api = FakeApi()
        api.tokens["good"] = {"username": "prometheus"}
        async with serving(api=api) as server:
            assert (await ask(server, "/metrics", headers=bearer("good")))[0] == 403
            api.broken = True
            assert (await ask(server, "/configz", headers=bearer("good")))[0] == 500
            assert (await ask(server, "/metrics", headers=bearer("other")))[0] == 401
            assert (await ask(server, "/healthz"))[0] == 200

    run(test)


def test_without_an_api_server_tokens_mean_nothing() -> None:
    async def test() -> None:
        async with serving() as server:
            assert (await ask(server, "/healthz", headers=bearer("any")))[0] == 200
            assert (await ask(server, "/metrics", headers=bearer("any")))[0] == 403

    run(test)


def test_client_certificates_name_users_and_groups(tmp_path: Path) -> None:
    async def test() -> None:
        authority, other = Authority("clients"), Authority("strangers")
        api = FakeApi()
        api.allowed.add(("me", "get", "/metrics"))
        settings = replace(SETTINGS, authorities=Authorities(clients=authority.pem))
        async with serving(settings, api=api) as server:
            me = authority.issue("me", "team")
            assert (await ask(server, "/metrics", issued=me, folder=tmp_path))[0] == 200
            assert api.reviews[-1]["spec"]["groups"] == ["team", "system:authenticated"]
            admin = authority.issue("root", "system:masters")
            assert (await ask(server, "/configz", issued=admin, folder=tmp_path))[0] == 200
            assert (await ask(server, "/metrics"))[0] == 403
            with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
                await ask(server, "/healthz", issued=other.issue("me"), folder=tmp_path)

    run(test)


def test_a_front_proxy_says_who_asks(tmp_path: Path) -> None:
    async def test() -> None:
        clients, proxies = Authority("clients"), Authority("proxies")
        api = FakeApi()
        api.config_map = {
            "client-ca-file": clients.pem,
            "requestheader-client-ca-file": proxies.pem,
            "requestheader-allowed-names": '["front"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        api.allowed.add(("alice", "get", "/metrics"))
        headers = {"X-Remote-User": "alice", "X-Remote-Group": "a", "X-Remote-Extra-Example.com%2fScope": "x"}
        async with serving(api=api) as server:
            front = proxies.issue("front")
            assert (await ask(server, "/metrics", headers=headers, issued=front, folder=tmp_path))[0] == 200
            spec = api.reviews[-1]["spec"]
            assert spec["groups"] == ["a", "system:authenticated"]
            assert spec["extra"] == {"example.com/scope": ["x"]}

            assert (await ask(server, "/metrics", headers=headers))[0] == 403, "anybody can send headers"
            for somebody in (clients.issue("front"), clients.issue("bob")):
                status, text = await ask(
                    server, "/metrics", headers=headers, issued=somebody, folder=tmp_path
                )
                assert status == 403, "a client is no proxy"
                assert "alice" not in text
            stranger = proxies.issue("not-allowed")
            answer = await ask(server, "/metrics", headers=headers, issued=stranger, folder=tmp_path)
            assert answer[0] == 401

    run(test)


def test_authorities_of_the_command_line_count_for_more(tmp_path: Path) -> None:
    async def test() -> None:
        given, published = Authority("given"), Authority("published")
        api = FakeApi()
        api.config_map = {"client-ca-file": published.pem}
        api.allowed.add(("me", "get", "/metrics"))
        settings = replace(SETTINGS, authorities=Authorities(clients=given.pem))
        async with serving(settings, api=api) as server:
            assert (await ask(server, "/metrics", issued=given.issue("me"), folder=tmp_path))[0] == 200
            with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
                await ask(server, "/metrics", issued=published.issue("me"), folder=tmp_path)

    run(test)


def test_a_failed_lookup_is_tolerated_or_not() -> None:
    async def test() -> None:
        api = FakeApi()
        api.config_map = None
        async with serving(api=api) as server:
            assert (await ask(server, "/healthz"))[0] == 200
        with pytest.raises(LookupFailedError, match="may not be read"):
            async with serving(replace(SETTINGS, tolerate_lookup_failure=False), api=api):
                pass

    run(test)


def test_a_rotated_certificate_is_used_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        old, new = Authority("old"), Authority("new")
        files = old.issue("server", hosts=("127.0.0.1",)).write(tmp_path, "serving")
        settings = replace(SETTINGS, certificates=ServingSettings(Pair(*files)))
        async with serving(settings) as server:
            assert (await ask(server, "/healthz", trust=old.pem))[0] == 200
            new.issue("server", hosts=("127.0.0.1",)).write(tmp_path, "serving")
            assert (await ask(server, "/healthz", trust=new.pem))[0] == 200
            files[0].write_text("broken")
            assert (await ask(server, "/healthz", trust=new.pem))[0] == 200, "the last good one stays"

    run(test)


def test_names_choose_their_certificates(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority("all")
        pairs = {
            name: Pair(*authority.issue(name, hosts=(name,)).write(tmp_path, name.strip("*.")))
            for name in ("127.0.0.1", "a.test", "*.b.test")
        }
        serving_settings = ServingSettings(pairs["127.0.0.1"], (pairs["a.test"], pairs["*.b.test"]))
        async with serving(replace(SETTINGS, certificates=serving_settings)) as server:
            for host in ("a.test", "x.b.test", ""):
                assert (await ask(server, "/healthz", trust=authority.pem, host=host))[0] == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                await ask(server, "/healthz", trust=authority.pem, host="x.y.b.test")

    run(test)


def test_pages_for_the_leader_only() -> None:
    async def test() -> None:
        leading = False
        api = FakeApi()
        api.tokens["t"] = {"username": "root", "groups": ["system:masters"]}
        pods = [make_pod(f"p{n}").requests(cpu="1").build() for n in range(3000)]
        pages = the_pages(pods=lambda: pods, leading=lambda: leading)
        async with serving(pages=pages, api=api) as server:
            assert await ask(server, "/metrics/resources", headers=bearer("t")) == (200, "")
            leading = True
            status, text = await ask(server, "/metrics/resources", headers=bearer("t"))
            assert status == 200
            assert text.count("kube_pod_resource_request{") == 3000
            assert text.endswith("\n")

    run(test)


def test_verbosity_is_set_by_put() -> None:
    async def test() -> None:
        levels: list[int] = []
        api = FakeApi()
        api.tokens["t"] = {"username": "root", "groups": ["system:masters"]}
        how: dict[str, Any] = {"headers": bearer("t")}
        async with serving(pages=the_pages(set_verbosity=levels.append), api=api) as server:
            status, text = await ask(server, "/debug/flags/v", "PUT", body=b"4", **how)
            assert (status, text) == (200, "successfully set klog.logging.verbosity to 4\n")
            assert levels == [4]
            assert (await ask(server, "/debug/flags/v", "PUT", body=b"<b>", **how))[0] == 400
            assert (await ask(server, "/debug/flags/v", **how))[0] == 406
        async with serving(api=api) as server:
            assert (await ask(server, "/debug/flags/v", "PUT", body=b"4", **how))[0] == 404

    run(test)


def test_other_pages() -> None:
    async def test() -> None:
        api = FakeApi()
        api.tokens["t"] = {"username": "root", "groups": ["system:masters"]}
        how: dict[str, Any] = {"headers": bearer("t")}
        async with serving(pages=the_pages(configuration=lambda: {"kind": "K"}), api=api) as server:
            assert await ask(server, "/configz", **how) == (200, '{"componentconfig": {"kind": "K"}}')
            await ask(server, "/readyz")
            assert 'name="x"' in (await ask(server, "/metrics/slis", **how))[1]
            for path in ("/nope", "/healthz/", "//x/configz", "/flagz", "/statusz", "/debug/pprof/"):
                assert await ask(server, path, **how) == (404, "404 page not found\n")
            assert await ask(server, "/healthz", "HEAD") == (200, "")

    run(test)


async def raw(server: OpsServer, request: bytes) -> bytes:
    context = a_context()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"PUT /healthz HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n" + b"a" * 2_000_000, 413),
        (b"GET /healthz HTTP/1.1\r\n\r\n" * 2, 400),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    ],
    ids=["no HTTP", "long head", "long body", "pipelined", "HTTP/1.0"],
)
def test_what_is_not_answered_ends_the_connection(request_bytes: bytes, status: int) -> None:
    async def test() -> None:
        async with serving() as server:
            with contextlib.suppress(ConnectionError):
                answer = await raw(server, request_bytes)
                assert f" {status} ".encode() in answer.split(b"\r\n")[0]
            assert await ask(server, "/healthz") == (200, "ok")

    run(test)


def test_a_connection_serves_many_requests_and_strangers_do_no_harm() -> None:
    async def test() -> None:
        async with serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"this is not TLS\r\n\r\n")
            assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), 10)
            writer.close()

            def three_times() -> list[bytes]:
                context = a_context()
                connection = http.client.HTTPSConnection(
                    "127.0.0.1", server.port, timeout=10, context=context
                )
                bodies = []
                for _ in range(3):
                    connection.request("GET", "/healthz")
                    bodies.append(connection.getresponse().read())
                connection.close()
                return bodies

            assert await asyncio.to_thread(three_times) == [b"ok"] * 3

    run(test)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_an_address_that_stands_for_all_is_all(address: str) -> None:
    with socket.socket() as taken:  # the same port for both families
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    async def test() -> None:
        async with serving(replace(SETTINGS, address=address, port=port)) as server:
            assert await ask(server, "/healthz") == (200, "ok")

    run(test)


def test_more_connections_than_allowed_are_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.ops.http._MOST_CONNECTIONS", 2)

    async def test() -> None:
        async with serving() as server:
            idle = [await asyncio.open_connection("127.0.0.1", server.port, ssl=a_context()) for _ in "ab"]
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await ask(server, "/healthz")
            for _, writer in idle:
                writer.close()
            while True:  # they are gone some time soon
                with contextlib.suppress(OSError):
                    assert await ask(server, "/healthz") == (200, "ok")
                    return

    run(test)


def test_who_does_not_read_a_long_page_is_left_alone_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.ops.http._DRAIN_TIMEOUT", 0.05)

    async def test() -> None:
        answering: asyncio.Future[asyncio.Task[Any] | None] = asyncio.get_running_loop().create_future()

        async def answer(request: Request) -> Response:
            answering.set_result(asyncio.current_task())
            return Response(body=itertools.repeat(b"x" * 65536))

        server = HttpServer(answer)
        await server.start("127.0.0.1", 0)
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0], limit=1)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        task = await answering
        assert task is not None
        await asyncio.wait_for(task, 10)
        writer.close()
        await server.stop()

    run(test)


def test_stopping_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with serving() as server:
            port = server.port
            context = a_context()
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"ok")
        assert await asyncio.wait_for(reader.read(), 5) == b"", "idle connections are closed"
        writer.close()
        with pytest.raises(OSError, match=r"refused|failed"):
            await asyncio.open_connection("127.0.0.1", port)
        assert len(asyncio.all_tasks()) == 1

    run(test)


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority("a")
    certificate, key = authority.issue("x").write(tmp_path, "x")
    other = authority.issue("y").write(tmp_path, "y")[1]
    (tmp_path / "junk.key").write_text("junk")
    for pair, words in (
        (Pair(tmp_path / "none.crt", key), "none.crt"),
        (Pair(certificate, other), "no certificate with its key"),
        (Pair(certificate, tmp_path / "junk.key"), "one of them is not PEM, or the key is encrypted"),
    ):
        settings = replace(SETTINGS, certificates=ServingSettings(pair))
        with pytest.raises((OSError, ValueError), match=words):
            OpsServer(settings, the_pages())


def test_request_headers_of_a_config_map_are_compared_without_case() -> None:
    assert RequestHeaders().user == ("x-remote-user",)
