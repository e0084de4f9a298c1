"""Who a request comes from: a front proxy's word, a client certificate, a token, or nobody known.

The API server knows tokens and, in a ConfigMap, the authorities to believe; both are asked for and
remembered for a while.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import unquote

from stowplan.kube.errors import ApiError
from stowplan.ops.http import Request
from stowplan.ops.remembering import Remembered

log = logging.getLogger(__name__)

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATED = "system:authenticated"


class UnauthenticatedError(Exception):
    """Credentials were shown, and they are not good."""


@dataclass(frozen=True)
class User:
    """Somebody, as RBAC knows them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))


class TokenReviewer(Protocol):
    """What is asked of the API server."""

    async def create(self, obj: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True)
class RequestHeaders:
    """How a front proxy says on whose behalf it asks."""

    authorities: str = ""
    """PEM; without them no proxy is believed."""
    allowed_names: frozenset[str] = frozenset()
    """The common names of proxies; none: all that the authorities vouch for."""
    user: tuple[str, ...] = ("x-remote-user",)
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True)
class Authorities:
    """Whose certificates are believed."""

    clients: str = field(default="", repr=False)
    """PEM."""
    front_proxies: RequestHeaders = RequestHeaders()

    @property
    def all(self) -> str:
        """PEM of both; TLS accepts certificates of either."""
        return "\n".join(filter(None, (self.clients, self.front_proxies.authorities)))


CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def authorities_in(config_map: Mapping[str, Any]) -> Authorities:
    """What the API server publishes for servers like this one. A ValueError says what cannot be read."""
    data: Mapping[str, str] = config_map.get("data") or {}

    def names(key: str) -> tuple[str, ...]:
        try:
            found = json.loads(data.get(key) or "[]")
        except ValueError:
            raise ValueError(f"data.{key} is not JSON") from None
        return tuple(str(name).lower() for name in found or ())

    proxies = RequestHeaders(
        authorities=data.get("requestheader-client-ca-file", ""),
        allowed_names=frozenset(json.loads(data.get("requestheader-allowed-names") or "[]") or ()),
        user=names("requestheader-username-headers"),
        uid=names("requestheader-uid-headers"),
        group=names("requestheader-group-headers"),
        extra_prefixes=names("requestheader-extra-headers-prefix"),
    )
    return Authorities(data.get("client-ca-file", ""), proxies)


class Authenticator:
    """Finds out who asks. `reviewer` is None when there is no API server to ask: tokens are then ignored."""

    def __init__(
        self,
        reviewer: TokenReviewer | None = None,
        authorities: Authorities = Authorities(),
        *,
        seconds_remembered: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.authorities = authorities
        self._reviewer = reviewer
        self._seconds = seconds_remembered
        self._tokens: Remembered[bytes, User | None] = Remembered(clock)
        self._rejected: Remembered[bytes, bool] = Remembered(clock)

    async def user(self, request: Request) -> User:
        """Raises UnauthenticatedError for credentials that are not good."""
        chain = verified_chain(request.tls)
        if chain:
            known = self._by_proxy(request, chain) or self._by_certificate(chain)
            if known is not None:
                return _authenticated(known)
        token = _bearer_token(request)
        if token and self._reviewer is not None:
            return _authenticated(await self._by_token(self._reviewer, token))
        if chain:
            raise UnauthenticatedError("the client certificate names nobody who is believed")
        return NOBODY

    def _by_proxy(self, request: Request, chain: list[bytes]) -> User | None:
        proxies = self.authorities.front_proxies
        if not _anchored(chain, proxies.authorities):
            return None
        name = next((value for header in proxies.user if (value := request.header(header))), "")
        if not name:
            return None
        if proxies.allowed_names and subject_of(chain[0]).name not in proxies.allowed_names:
            return None
        groups = tuple(value for header in proxies.group for value in request.all(header) if value)
        uid = next((value for header in proxies.uid if (value := request.header(header))), "")
        extra: dict[str, list[str]] = {}
        for header, value in request.headers:
            for prefix in proxies.extra_prefixes:
                if header.startswith(prefix):
                    # names of headers cannot have every letter, so keys are escaped as in URLs
                    extra.setdefault(unquote(header.removeprefix(prefix)), []).append(value)
        return User(name, groups, uid, tuple((key, tuple(values)) for key, values in extra.items()))

    def _by_certificate(self, chain: list[bytes]) -> User | None:
        if not _anchored(chain, self.authorities.clients):
            return None
        user = subject_of(chain[0])
        return user if user.name else None

    async def _by_token(self, reviewer: TokenReviewer, token: str) -> User:
        key = hashlib.sha256(token.encode()).digest()  # the token itself is not kept
        known = self._tokens.get(key)
        if known is not None:
            return known
        if self._rejected.get(key):
            raise UnauthenticatedError("invalid bearer token")
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token},
        }
        try:
            answer = await reviewer.create(review)
        except ApiError as problem:
            raise UnauthenticatedError(f"the token could not be reviewed: {problem}") from None
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            self._rejected.put(key, True, self._seconds)
            raise UnauthenticatedError("invalid bearer token")
        user = _user_in(status.get("user") or {})
        self._tokens.put(key, user, self._seconds)
        return user


def _user_in(found: Mapping[str, Any]) -> User:
    extra = tuple((key, tuple(values)) for key, values in (found.get("extra") or {}).items())
    groups = tuple(found.get("groups") or ())
    return User(found.get("username") or "", groups, found.get("uid") or "", extra)


def _authenticated(user: User) -> User:
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _bearer_token(request: Request) -> str:
    scheme, _, token = request.header("authorization").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def verified_chain(tls: Any) -> list[bytes]:
    """The client's certificate and those above it up to the authority, as DER; OpenSSL has checked them."""
    if tls is None or tls.getpeercert(binary_form=True) is None:
        return []
    if hasattr(tls, "get_verified_chain"):  # Python 3.13 and later
        return list(tls.get_verified_chain())
    import _ssl

    chain = tls._sslobj.get_verified_chain() or []
    return [certificate.public_bytes(_ssl.ENCODING_DER) for certificate in chain]


def _anchored(chain: list[bytes], authorities: str) -> bool:
    """Whether the chain ends at one of these authorities (PEM)."""
    if not authorities:
        return False
    from ssl import PEM_cert_to_DER_cert

    end = "-----END CERTIFICATE-----"
    parts = [part + end for part in authorities.split(end) if "-----BEGIN CERTIFICATE-----" in part]
    known = {PEM_cert_to_DER_cert(part[part.index("-----BEGIN") :]) for part in parts}
    return any(certificate in known for certificate in chain)


def subject_of(certificate: bytes) -> User:
    """The user that a client certificate (DER) names: the common name, with organisations as groups."""
    from cryptography import x509

    subject = x509.load_der_x509_certificate(certificate).subject

    def values(oid: Any) -> tuple[str, ...]:
        return tuple(str(each.value) for each in subject.get_attributes_for_oid(oid))

    names = values(x509.NameOID.COMMON_NAME)
    return User(names[-1] if names else "", values(x509.NameOID.ORGANIZATION_NAME))


class AuthoritiesWatch:
    """Follows what the API server publishes. Files named on the command line count for more."""

    def __init__(
        self,
        authenticator: Authenticator,
        given: Authorities,
        fetch: Callable[[str], Awaitable[Mapping[str, Any]]],
        changed: Callable[[str], None],
    ) -> None:
        self._authenticator = authenticator
        self._given = given
        self._fetch = fetch
        self._changed = changed

    async def look(self) -> None:
        """Looks once. Raises what `fetch` raises, or a ValueError."""
        published = authorities_in(await self._fetch(CONFIG_MAP))
        given = self._given
        current = Authorities(
            given.clients or published.clients,
            given.front_proxies if given.front_proxies.authorities else published.front_proxies,
        )
        if current != self._authenticator.authorities:
            self._changed(current.all)
            self._authenticator.authorities = current
