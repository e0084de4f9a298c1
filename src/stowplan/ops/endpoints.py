"""What is answered at which path, and to whom."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stowplan.objects import Pod
from stowplan.ops import http, metrics
from stowplan.ops.authentication import Authenticator, UnauthenticatedError
from stowplan.ops.authorization import AuthorizationError, Authorizer
from stowplan.ops.health import HealthGroup, HealthMetrics
from stowplan.ops.http import Request, Response
from stowplan.ops.resources import resource_metrics

log = logging.getLogger(__name__)

_NO_SNIFFING = (("X-Content-Type-Options", "nosniff"),)


@dataclass
class Pages:
    """What the pages are made of."""

    metrics: metrics.SchedulerMetrics
    health: tuple[HealthGroup, ...]
    health_metrics: HealthMetrics
    pods: Callable[[], Iterable[Pod]] = tuple
    """All pods that are known."""
    leading: Callable[[], bool] = lambda: True
    """Whether this process schedules; only one shows `/metrics/resources`."""
    configuration: Callable[[], Mapping[str, Any]] = dict
    """The configuration in effect, as in a file."""
    set_verbosity: Callable[[int], None] | None = None
    """None: `/debug/flags/v` does not exist."""


class Endpoints:
    """The handler of all requests: who is it, may they, and what do they get."""

    def __init__(self, pages: Pages, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._pages = pages
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._routes: dict[str, Callable[[Request], Response]] = {
            "/metrics": self._metrics,
            "/metrics/resources": self._resources,
            "/metrics/slis": self._slis,
            "/configz": self._configz,
        }
        if pages.set_verbosity is not None:
            self._routes["/debug/flags/v"] = self._verbosity
        self._health = {group.name: group for group in pages.health}

    async def __call__(self, request: Request) -> Response:
        response = await self._respond(request)
        if log.isEnabledFor(17):  # -v=3, as upstream; the headers hold credentials and are not shown
            log.log(
                17,
                "HTTP",
                extra={
                    "verb": request.method,
                    "URI": request.path,
                    "srcIP": request.client,
                    "resp": response.status,
                },
            )
        return response

    async def _respond(self, request: Request) -> Response:
        try:
            user = await self._authenticator.user(request)
        except UnauthenticatedError as problem:
            log.error("Unable to authenticate the request", extra={"err": str(problem)})
            return status_page(401, "Unauthorized", "Unauthorized")
        verb = request.method.lower()
        try:
            permission = await self._authorizer.permission(user, verb, request.path)
        except AuthorizationError as problem:
            log.error("cannot authorize %s %s", verb, request.path, extra={"err": str(problem)})
            return http.text(f'Internal Server Error: "{_harmless(request.path)}"\n', 500)
        if not permission.allowed:
            words = f'forbidden: User "{_harmless(user.name)}" cannot {verb} path "{_harmless(request.path)}"'
            reason = f": {permission.reason}" if permission.reason else ""
            return status_page(403, "Forbidden", words + reason, {})
        return self._page(request) or http.text("404 page not found\n", 404)

    def _page(self, request: Request) -> Response | None:
        route = self._routes.get(request.path)
        if route is not None:
            return route(request)
        group = self._health.get(request.path.split("/")[1] if request.path.startswith("/") else "")
        return group.answer(request) if group is not None else None

    # The pages

    def _metrics(self, request: Request) -> Response:
        return Response(body=self._pages.metrics.render(), content_type=metrics.CONTENT_TYPE)

    def _resources(self, request: Request) -> Response:
        pieces: Iterator[bytes] = iter(())
        if self._pages.leading():
            pieces = resource_metrics(self._pages.pods())
        return Response(body=pieces, content_type=metrics.CONTENT_TYPE)

    def _slis(self, request: Request) -> Response:
        return Response(body=self._pages.health_metrics.render(), content_type=metrics.CONTENT_TYPE)

    def _configz(self, request: Request) -> Response:
        body = json.dumps({"componentconfig": self._pages.configuration()}, ensure_ascii=False)
        return Response(body=body.encode(), content_type=http.JSON, headers=_NO_SNIFFING)

    def _verbosity(self, request: Request) -> Response:
        assert self._pages.set_verbosity is not None
        if request.method != "PUT":
            return http.text("unsupported http method\n", 406)
        wanted = request.body.decode(errors="replace").strip()
        if not wanted.isdecimal():
            words = _harmless(wanted[:80])
            return http.text(f'failed set klog.logging.verbosity {words}: "{words}" is not a number\n', 400)
        self._pages.set_verbosity(int(wanted))
        return http.text(f"successfully set klog.logging.verbosity to {wanted}\n")


def status_page(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> Response:
    """A Status object, as the API server answers."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        status["details"] = details
    status["code"] = code
    return Response(
        code, (json.dumps(status, separators=(",", ":")) + "\n").encode(), http.JSON, _NO_SNIFFING
    )


def _harmless(words: str) -> str:
    """Nothing that a browser could take for a page."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', '\\"')
