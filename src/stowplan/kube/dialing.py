"""Opening connections: straight or through a proxy's tunnel, with TLS or without."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from stowplan.kube.credentials import Credentials
from stowplan.kube.http1 import Connection
from stowplan.kube.tls import ClientCertificate, ResumingContext, Trust, make_context

_MOST_HEAD = 16 << 10
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""A peer that vanished is noticed within half a minute, even on a watch on which nothing happens."""


class Proxy(NamedTuple):
    """An HTTP proxy, and what to tell it about us."""

    host: str
    port: int
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host}:{self.port})"


def parse_proxy(url: str) -> Proxy:
    """Reads a proxy's URL; a ValueError says why it cannot be used."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http":
        raise ValueError(
            f"a proxy with {parts.scheme}:// is not supported: use an HTTP proxy (http://host:port), "
            "which tunnels the TLS connection to the API server"
        )
    if not parts.hostname:
        raise ValueError("the proxy's URL names no host")
    try:
        port = parts.port or 80
    except ValueError:  # which shows what it takes for the port: a slash in a password ends the host
        raise ValueError(
            "the proxy's URL has no number as its port; write / : @ in a name or password as %2F %3A %40"
        ) from None
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(parts.hostname, port, authorization)


class Dialer:
    """Opens connections to one server, with the credentials as they are at that time."""

    def __init__(
        self, host: str, port: int, trust: Trust | None, credentials: Credentials, proxy: Proxy | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._trust = trust
        self._credentials = credentials
        self._proxy = proxy
        self._context: ResumingContext | None = None
        self._shown: ClientCertificate | None = None
        self._last: Connection | None = None

    async def __call__(self, factory: Callable[[], Connection]) -> Connection:
        loop = asyncio.get_running_loop()
        context = self._tls_context()
        name = (self._trust.server_name or self._host) if self._trust is not None else None
        if self._proxy is None:
            transport, connection = await loop.create_connection(
                factory, self._host, self._port, ssl=context, server_hostname=name
            )
        else:
            tunnel = await self._tunnel(self._proxy)
            try:
                transport, connection = await loop.create_connection(
                    factory, sock=tunnel, ssl=context, server_hostname=name
                )
            except BaseException:
                tunnel.close()
                raise
        _watch_over(transport.get_extra_info("socket"))
        self._last = connection
        return connection

    def _tls_context(self) -> ResumingContext | None:
        if self._trust is None:
            return None
        certificate = self._credentials.certificate()
        if self._context is None or certificate != self._shown:
            self._context, self._shown = make_context(self._trust, certificate), certificate
        elif self._last is not None and self._last.ssl_object is not None:
            self._context.session = self._last.ssl_object.session
        return self._context

    async def _tunnel(self, proxy: Proxy) -> socket.socket:
        """A socket that the proxy has connected with the server."""
        reader, writer = await asyncio.open_connection(proxy.host, proxy.port, limit=_MOST_HEAD)
        try:
            target = f"[{self._host}]" if ":" in self._host else self._host
            lines = [f"CONNECT {target}:{self._port} HTTP/1.1", f"Host: {target}:{self._port}"]
            if proxy.authorization:
                lines.append(f"Proxy-Authorization: {proxy.authorization}")
            writer.write("\r\n".join([*lines, "", ""]).encode())
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                raise OSError(f"{proxy} did not answer as an HTTP proxy does") from None
            status = head.split(b"\r\n", 1)[0].split(b" ", 2)
            if len(status) < 2 or status[1] != b"200":
                said = b" ".join(status[1:]).decode(errors="replace")
                raise OSError(f"{proxy} refused to connect to {target}:{self._port}: {said}")
            # The server speaks only after we did, so nothing has been read beyond the head.
            original = writer.get_extra_info("socket")
            return socket.fromfd(original.fileno(), original.family, original.type)
        finally:
            writer.transport.abort()


def _watch_over(plain: socket.socket | None) -> None:
    if plain is None or plain.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        if hasattr(socket, option):
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
