"""What is known of an API server before the first request: where it is, whom to trust, who we are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from stowplan.kube.credentials import Credentials, StaticCredentials
from stowplan.kube.dialing import Dialer, Proxy
from stowplan.kube.pool import Admit, Pool, anything
from stowplan.kube.tls import Trust


@dataclass(frozen=True)
class Impersonation:
    """Whom to act as; the credentials must allow it."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


class Place(NamedTuple):
    """What the URL of a server says."""

    secure: bool
    host: str
    port: int
    path: str


def place_of(server: str) -> Place:
    """Reads the URL of an API server; a ValueError says what is wrong with it."""
    try:
        parts = urlsplit(server)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
    except ValueError as error:
        raise ValueError(f"{server!r} is not the URL of an API server: {error}") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{server!r} is not the URL of an API server, such as https://10.0.0.1:6443")
    return Place(secure, parts.hostname, port, parts.path.rstrip("/"))


@dataclass(frozen=True)
class Access:
    """A server and a user of it."""

    server: str
    """The URL, such as https://10.0.0.1:6443 (a path is kept in front of all paths)."""
    credentials: Credentials = field(default_factory=StaticCredentials, repr=False)
    trust: Trust = field(default_factory=Trust)
    proxy: Proxy | None = None
    impersonation: Impersonation = Impersonation()
    namespace: str = ""
    """The namespace to use when none is said."""

    def transport(self, *, connections: int, admit: Admit = anything) -> Pool:
        """A pool of connections of its own."""
        place = place_of(self.server)
        trust = self.trust if place.secure else None
        dialer = Dialer(place.host, place.port, trust, self.credentials, self.proxy)
        return Pool(dialer, size=connections, path_prefix=place.path, admit=admit)

    def header_lines(self, user_agent: str) -> bytes:
        """The lines that all requests have in common; credentials come on top."""
        lines = [
            ("Host", urlsplit(self.server).netloc.rpartition("@")[2]),
            ("User-Agent", user_agent),
            ("Accept", "application/json"),
        ]
        if self.impersonation.user:
            lines.append(("Impersonate-User", self.impersonation.user))
        if self.impersonation.uid:
            lines.append(("Impersonate-Uid", self.impersonation.uid))
        lines += [("Impersonate-Group", group) for group in self.impersonation.groups]
        lines += [(f"Impersonate-Extra-{key}", value) for key, value in self.impersonation.extra]
        for name, value in lines:
            if not value.isprintable() or not name.isprintable():
                raise ValueError(f"{name}: the value has characters that cannot stand in a header")
        return "".join(f"{name}: {value}\r\n" for name, value in lines).encode()
