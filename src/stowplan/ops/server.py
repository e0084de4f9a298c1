"""The HTTPS server of a scheduler: who may ask, the certificates, the pages, and how it starts and ends."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stowplan.kube.errors import ApiError
from stowplan.ops.authentication import Authenticator, Authorities, AuthoritiesWatch
from stowplan.ops.authorization import ALWAYS_ALLOWED_PATHS, Authorizer
from stowplan.ops.certificates import ServingCertificates, ServingSettings
from stowplan.ops.endpoints import Endpoints, Pages
from stowplan.ops.http import HttpServer

log = logging.getLogger(__name__)

_LOOK_EVERY = 60.0


class Reviewer(Protocol):
    """What is needed of a client of the API server."""

    async def create(self, obj: Mapping[str, Any]) -> Any: ...

    async def get_plain(self, target: str) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ServerSettings:
    """What the command line says about the server."""

    address: str = "0.0.0.0"
    port: int = 10259
    share_address: bool = False
    share_port: bool = False
    certificates: ServingSettings = field(default=ServingSettings())
    authorities: Authorities = field(default=Authorities())
    """Those named on the command line."""
    look_up_authorities: bool = True
    """Whether to ask the API server for those that were not named."""
    tolerate_lookup_failure: bool = True
    token_seconds: float = 10.0
    always_allowed: tuple[str, ...] = ALWAYS_ALLOWED_PATHS
    allowed_seconds: float = 10.0
    denied_seconds: float = 10.0


class LookupFailedError(Exception):
    """The API server does not say whose certificates to believe, and the settings insist on it."""


class OpsServer:
    """Serves the pages until stopped."""

    def __init__(
        self,
        settings: ServerSettings,
        pages: Pages,
        authentication: Reviewer | None = None,
        authorization: Reviewer | None = None,
    ) -> None:
        """The reviewers are clients of the API server, or None to believe no tokens and allow nothing but
        what is always allowed. Raises OSError or ValueError for certificates that cannot be used."""
        self._settings = settings
        self._reviewer = authentication
        self._certificates = ServingCertificates(settings.certificates)
        self._certificates.trust(settings.authorities.all)
        self._authenticator = Authenticator(
            authentication, settings.authorities, seconds_remembered=settings.token_seconds
        )
        authorizer = Authorizer(
            authorization,
            always_allowed=settings.always_allowed,
            seconds_allowed=settings.allowed_seconds,
            seconds_denied=settings.denied_seconds,
        )
        self._http = HttpServer(Endpoints(pages, self._authenticator, authorizer), self._certificates.context)
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises OSError when the address cannot be had, LookupFailedError."""
        settings = self._settings
        watch = self._watch()
        if watch is not None:
            try:
                await watch.look()
            except (ApiError, ValueError) as problem:
                if not settings.tolerate_lookup_failure:
                    raise LookupFailedError(f"authentication configuration: {problem}") from None
                log.warning(
                    "no authentication configuration from the API server; client certificates are not "
                    "believed until there is one: %s",
                    problem,
                )
            self._following = asyncio.get_running_loop().create_task(self._follow(watch))
        await self._http.start(
            _listen_host(settings.address),
            settings.port,
            share_address=settings.share_address,
            share_port=settings.share_port,
        )
        log.info("Serving securely on %s:%d", settings.address, self.port)

    @property
    def port(self) -> int:
        return self._http.ports[0]

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._http.stop()

    def _watch(self) -> AuthoritiesWatch | None:
        settings = self._settings
        if self._reviewer is None or not settings.look_up_authorities:
            return None
        if settings.authorities.clients and settings.authorities.front_proxies.authorities:
            return None
        return AuthoritiesWatch(
            self._authenticator, settings.authorities, self._reviewer.get_plain, self._certificates.trust
        )

    async def _follow(self, watch: AuthoritiesWatch) -> None:
        """Authorities are rotated, rarely; asking once a minute is enough."""
        troubled = False
        while True:
            await asyncio.sleep(_LOOK_EVERY * (1 + 0.1 * random.random()))
            try:
                await watch.look()
                troubled = False
            except (ApiError, ValueError) as problem:
                log.log(logging.DEBUG if troubled else logging.WARNING, "authentication: %s", problem)
                troubled = True


def _listen_host(address: str) -> str | None:
    """All addresses of all families, where upstream takes them all."""
    return None if address in ("", "0.0.0.0", "::") else address
