"""What the client asks for, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import stowplan
from stowplan.kube.access import Access, Impersonation
from stowplan.kube.client import MERGE, ApiClient
from stowplan.kube.credentials import StaticCredentials, bearer
from stowplan.kube.errors import ApiError, CredentialsError, UncertainError, UnreachableError
from stowplan.kube.tls import ClientCertificate
from stowplan.objects import Node, Pod, ResourceClaim, StorageClass, find_kind
from tests.unit.kube.fakeserver import CutNow, Exchange, FakeServer, Handler, eventually, ok, serving

Test = Callable[[ApiClient, FakeServer], Awaitable[None]]
POD = Pod(name="web-1", namespace="shop", uid="u-1")
SECRET = "s3cr3t-t0ken"


class Slept(list[float]):
    """A sleep that takes no time and is remembered."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)
        await asyncio.sleep(0)


def run(handler: Handler, test: Test, *, access: dict[str, Any] | None = None, **options: Any) -> None:
    async def main() -> None:
        async with serving(handler) as server:
            prefix = (access or {}).pop("prefix", "")
            client = ApiClient(Access(server=server.url + prefix, **(access or {})), **options)
            try:
                async with asyncio.timeout(20):
                    await test(client, server)
            finally:
                await client.close()

    asyncio.run(main())


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, **more}


def test_binding_names_pod_uid_and_node() -> None:
    async def test(client: ApiClient, server: FakeServer) -> None:
        await client.bind(POD, "node-1")
        (request,) = server.requests
        assert (request.method, request.target) == ("POST", "/api/v1/namespaces/shop/pods/web-1/binding")
        assert request.json == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u-1"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        }
        assert request.headers["content-type"] == "application/json"

    run(ok, test)


def test_every_request_says_who_we_are() -> None:
    async def test(client: ApiClient, server: FakeServer) -> None:
        await client.get_plain("/version")
        headers = server.requests[0].headers
        assert server.requests[0].target == "/behind/a/proxy/version"
        assert headers["user-agent"] == f"stowplan/{stowplan.__version__}"
        assert headers["accept"] == "application/json"
        assert headers["host"] == f"127.0.0.1:{server.port}"
        assert headers["authorization"] == f"Bearer {SECRET}"
        assert headers["impersonate-user"] == "jane"
        assert headers["impersonate-group"] == "ops"
        assert headers["impersonate-extra-scope"] == "all"

    access = {
        "prefix": "/behind/a/proxy/",
        "credentials": StaticCredentials(bearer(SECRET)),
        "impersonation": Impersonation("jane", "", ("ops",), (("scope", "all"),)),
    }
    run(ok, test, access=access)


def test_a_header_cannot_be_smuggled_in() -> None:
    with pytest.raises(CredentialsError, match="cannot stand in a header"):
        bearer("x\r\nImpersonate-User: admin")
    access = Access(server="http://x", impersonation=Impersonation(user="a\r\nX: y"))
    with pytest.raises(ValueError, match="Impersonate-User"):
        ApiClient(access)


def test_no_secret_is_shown_by_anything() -> None:
    certificate = ClientCertificate(b"certificate", SECRET.encode())
    access = Access(server="http://x", credentials=StaticCredentials(bearer(SECRET), certificate))
    for shown in (repr(access), str(access), repr(certificate), repr(access.credentials)):
        assert SECRET not in shown


def test_pages_are_asked_for_and_read() -> None:
    async def pages(exchange: Exchange) -> None:
        first = "continue" not in exchange.request.target
        metadata = {
            "resourceVersion": "7",
            **({"continue": "more/=", "remainingItemCount": 1} if first else {}),
        }
        name = "a" if first else "b"
        items = [{"metadata": {"name": name, "namespace": "shop"}}]
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        await exchange.reply(200, body)

    async def test(client: ApiClient, server: FakeServer) -> None:
        kind = find_kind("Pod")
        assert kind is not None
        one = await client.list_page(kind, limit=1, field_selector="status.phase!=Failed")
        assert [pod.name for pod in one.items] == ["a"]
        two = await client.list_page(
            kind, limit=1, continue_token=one.continue_token, field_selector="status.phase!=Failed"
        )
        assert [pod.name for pod in two.items] == ["b"]
        assert (two.continue_token, two.resource_version) == ("", "7")
        assert [each.target for each in server.requests] == [
            "/api/v1/pods?limit=1&fieldSelector=status.phase%21%3DFailed",
            "/api/v1/pods?limit=1&continue=more%2F%3D&fieldSelector=status.phase%21%3DFailed",
        ]

    run(pages, test)


def test_writes_go_where_objects_live() -> None:
    claim = ResourceClaim(name="gpu", namespace="shop", uid="c-1")

    async def echo(exchange: Exchange) -> None:
        node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "resourceVersion": "9"}}
        unknown = {"kind": "Widget", "apiVersion": "example.com/v1"}
        await exchange.reply(200, unknown if "example.com" in exchange.request.target else node)

    async def test(client: ApiClient, server: FakeServer) -> None:
        made = await client.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"x": 1}}
        )
        assert isinstance(made, Node) and made.resource_version == "9"
        widget = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": "a"},
        }
        assert await client.update(widget, subresource="status") == {
            "kind": "Widget",
            "apiVersion": "example.com/v1",
        }
        await client.patch(claim, {"status": {}}, subresource="status")
        await client.patch(widget, {"spec": {}}, content_type=MERGE)
        await client.delete(claim, grace_period=0)
        await client.delete(StorageClass(name="fast"))
        assert [(each.method, each.target) for each in server.requests] == [
            ("POST", "/api/v1/nodes"),
            ("PUT", "/apis/example.com/v1/namespaces/a/widgets/w/status"),
            ("PATCH", "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/gpu/status"),
            ("PATCH", "/apis/example.com/v1/namespaces/a/widgets/w"),
            ("DELETE", "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/gpu"),
            ("DELETE", "/apis/storage.k8s.io/v1/storageclasses/fast"),
        ]
        assert server.requests[2].headers["content-type"] == "application/strategic-merge-patch+json"
        assert server.requests[3].headers["content-type"] == "application/merge-patch+json"
        assert server.requests[4].json["preconditions"] == {"uid": "c-1"}
        assert server.requests[4].json["gracePeriodSeconds"] == 0
        assert "preconditions" not in server.requests[5].json

    run(echo, test)


def test_records_are_not_sent_as_if_they_were_whole() -> None:
    async def test(client: ApiClient, server: FakeServer) -> None:
        with pytest.raises(TypeError, match="Pod holds only what scheduling reads"):
            await client.update(POD)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="without a name"):
            await client.delete(Pod(namespace="shop"))
        with pytest.raises(ValueError, match="needs apiVersion, kind and metadata"):
            await client.create({"kind": "Pod"})
        assert not server.requests

    run(ok, test)


def test_a_no_is_told_with_what_the_server_says() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(409, status(409, "Conflict", "pod web-1 is already assigned to node n"))

    async def test(client: ApiClient, server: FakeServer) -> None:
        with pytest.raises(ApiError, match="already assigned to node n") as no:
            await client.bind(POD, "node-1")
        error = no.value
        assert str(error).startswith("POST /api/v1/namespaces/shop/pods/web-1/binding: pod web-1 is")
        assert (error.status, error.reason) == (409, "Conflict")
        assert error.is_conflict and not error.already_exists and not error.is_passing
        assert len(server.requests) == 1

    run(refuse, test)


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"", "Bad Gateway"), (b"<html>\n <b>no\xff</b>", r"<html> <b>no.</b>"), (b"[1]", r"\[1\]")],
)
def test_a_no_from_something_else_is_told_too(body: bytes, said: str) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(502, body)

    async def test(client: ApiClient, server: FakeServer) -> None:
        with pytest.raises(ApiError, match=said) as no:
            await client.bind(POD, "n")
        assert no.value.is_passing

    run(refuse, test)


@pytest.mark.parametrize("code", [429, 503])
def test_the_server_may_say_when_to_ask_again(code: int) -> None:
    slept = Slept()

    async def later(exchange: Exchange) -> None:
        count = sum(each.method == "POST" for each in server_of[0].requests)
        if count == 1:
            await exchange.reply(code, b"too many requests", {"Retry-After": "3"})
        elif count == 2:
            body = status(code, "TooManyRequests", "later", details={"retryAfterSeconds": 5})
            await exchange.reply(code, body)
        else:
            await ok(exchange)

    server_of: list[FakeServer] = []

    async def test(client: ApiClient, server: FakeServer) -> None:
        server_of.append(server)
        await client.bind(POD, "n")
        assert slept == [3.0, 5.0]
        assert len({each.body for each in server.requests}) == 1

    run(later, test, sleep=slept)


def test_asking_again_has_an_end_and_a_longest_pause() -> None:
    slept = Slept()

    async def never(exchange: Exchange) -> None:
        await exchange.reply(429, b"no", {"Retry-After": "86400"})

    async def test(client: ApiClient, server: FakeServer) -> None:
        with pytest.raises(ApiError, match="no"):
            await client.bind(POD, "n")
        assert len(server.requests) == 11
        assert set(slept) == {60.0}

    run(never, test, sleep=slept)


@pytest.mark.parametrize("code", [500, 503, 400, 404])
def test_without_such_a_word_nothing_is_sent_again(code: int) -> None:
    async def refuse(exchange: Exchange) -> None:
        headers = {"Retry-After": "1"} if code < 429 else {}
        await exchange.reply(code, b"no", headers)

    async def test(client: ApiClient, server: FakeServer) -> None:
        with pytest.raises(ApiError):
            await client.bind(POD, "n")
        assert len(server.requests) == 1

    run(refuse, test, sleep=Slept())


def test_a_cut_read_is_sent_again_and_a_cut_write_is_not() -> None:
    async def cut(exchange: Exchange) -> None:
        raise CutNow

    async def test(client: ApiClient, server: FakeServer) -> None:
        with pytest.raises(UncertainError):
            await client.get_plain("/version")
        assert len(server.requests) == 3
        server.requests.clear()
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(UncertainError) as doubt:
                await client.request(method, "/x", b"{}")
            assert doubt.value.is_passing
        assert [each.method for each in server.requests] == ["POST", "PUT", "PATCH", "DELETE"]
        await server.stop_listening()
        with pytest.raises(UnreachableError):
            await client.bind(POD, "n")

    run(cut, test, sleep=Slept())


class Rotating(StaticCredentials):
    """Gives the next token when one is refused."""

    def __init__(self, *tokens: str) -> None:
        super().__init__()
        self.tokens = list(tokens)
        self.renewals = 0

    def current(self) -> bytes | None:  # type: ignore[override]
        return bearer(self.tokens[0]) if self.tokens[0] else None

    async def renew(self) -> None:
        self.renewals += 1
        if not self.tokens[0]:
            self.tokens.pop(0)

    def reject(self) -> None:
        if len(self.tokens) > 1:
            self.tokens.pop(0)


def test_a_refused_token_is_renewed_once_and_the_request_sent_again() -> None:
    async def only_new(exchange: Exchange) -> None:
        good = exchange.request.headers["authorization"] == "Bearer new"
        await exchange.reply(
            200 if good else 401, {} if good else status(401, "Unauthorized", "Unauthorized")
        )

    credentials = Rotating("old", "new")

    async def test(client: ApiClient, server: FakeServer) -> None:
        await client.bind(POD, "n")
        assert [each.headers["authorization"] for each in server.requests] == ["Bearer old", "Bearer new"]
        credentials.tokens = ["wrong"]
        with pytest.raises(ApiError, match="Unauthorized"):
            await client.bind(POD, "n")
        assert len(server.requests) == 3
        credentials.tokens = ["", "new"]
        renewals = credentials.renewals
        await client.bind(POD, "n")
        assert credentials.renewals == renewals + 1

    run(only_new, test, access={"credentials": credentials})


class Expiring(StaticCredentials):
    """A certificate, and a count of how often it was renewed."""

    def __init__(self) -> None:
        super().__init__(b"", ClientCertificate(b"certificate", b"key"))
        self.renewals = 0

    async def renew(self) -> None:
        self.renewals += 1
        await asyncio.sleep(0.01)  # as long as a plugin runs


def test_many_requests_that_are_refused_together_have_credentials_renewed_once() -> None:
    arrived: list[int] = []

    async def first_ten(exchange: Exchange) -> None:
        arrived.append(1)
        if len(arrived) <= 10:
            await eventually(lambda: len(arrived) >= 10)
            await exchange.reply(401, status(401, "Unauthorized", "the certificate has expired"))
        else:
            await ok(exchange)

    credentials = Expiring()

    async def test(client: ApiClient, server: FakeServer) -> None:
        await asyncio.gather(*(client.bind(POD, "n") for _ in range(10)))
        assert credentials.renewals == 1
        assert len(server.requests) == 20
        assert min(each.connection for each in server.requests[10:]) > 10, "by connections that are new"

    run(first_ten, test, access={"credentials": credentials})


def test_a_client_is_crowded_while_more_than_half_of_its_connections_are_busy() -> None:
    go_on = asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        await go_on.wait()
        await ok(exchange)

    async def test(client: ApiClient, server: FakeServer) -> None:
        crowded = []
        requests = [asyncio.ensure_future(client.get_plain("/version")) for _ in range(2)]
        await eventually(lambda: len(server.requests) == 2)
        crowded.append(client.crowded)
        requests.append(asyncio.ensure_future(client.get_plain("/version")))
        await asyncio.sleep(0)
        crowded.append(client.crowded)
        go_on.set()
        await asyncio.gather(*requests)
        assert [*crowded, client.crowded] == [False, True, False]

    run(hold, test, connections=4)


def test_requests_above_the_rate_wait() -> None:
    slept = Slept()

    async def test(client: ApiClient, server: FakeServer) -> None:
        for _ in range(5):
            await client.bind(POD, "n")
        assert slept == pytest.approx([0.5, 1.0])  # the clock stands still

    run(ok, test, qps=2.0, burst=3, clock=lambda: 0.0, sleep=slept)


def test_how_long_requests_had_to_wait_is_told() -> None:
    slept = Slept()
    told: list[tuple[str, float]] = []

    async def test(client: ApiClient, server: FakeServer) -> None:
        for _ in range(3):
            await client.bind(POD, "n")
        assert told == [("POST", 0.0), ("POST", 0.5), ("POST", 0.5)]

    run(
        ok,
        test,
        qps=2.0,
        burst=1,
        clock=lambda: sum(slept),
        sleep=slept,
        held_up=lambda method, seconds: told.append((method, seconds)),
    )


def test_a_stream_is_read_to_its_end_or_refused() -> None:
    async def stream(exchange: Exchange) -> None:
        if exchange.request.target == "/gone":
            await exchange.reply(410, status(410, "Expired", "too old resource version"))
            return
        await exchange.start_stream()
        await exchange.piece(b"one")
        await exchange.end_stream()

    async def test(client: ApiClient, server: FakeServer) -> None:
        got: list[bytes] = []
        await client.stream("/watch", got.append, idle_timeout=5)
        assert got == [b"one"]
        with pytest.raises(ApiError) as gone:
            await client.stream("/gone", got.append, idle_timeout=5)
        assert gone.value.is_expired

    run(stream, test)


def test_a_server_must_be_a_url() -> None:
    for wrong in ("10.0.0.1:6443", "ftp://x", ""):
        with pytest.raises(ValueError, match=re.escape(repr(wrong))):
            ApiClient(Access(server=wrong))


def test_errors_can_be_told_apart() -> None:
    assert ApiError(404, "NotFound", "x").is_not_found
    assert ApiError(403, "Forbidden", "x").is_forbidden
    assert ApiError(409, "AlreadyExists", "x").already_exists
    assert not ApiError(409, "AlreadyExists", "x").is_conflict
