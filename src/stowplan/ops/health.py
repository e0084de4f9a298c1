"""/healthz, /livez and /readyz: named checks, each with a path of its own, `?verbose` and `?exclude=`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from stowplan.ops.http import Request, Response, text

log = logging.getLogger(__name__)


class Check(NamedTuple):
    """Something that must be so for the process to be well."""

    name: str
    problem: Callable[[], str | None]
    """Why it is not so; None when it is."""


def _fine() -> None:
    return None


PING = Check("ping", _fine)


class HealthMetrics:
    """How the checks went, for `/metrics/slis`."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._state = Gauge(
            "kubernetes_healthcheck",
            "[STABLE] What a health check said last: 1 is well.",
            ["name", "type"],
            registry=self._registry,
        )
        self._total = Counter(
            "kubernetes_healthchecks_total",
            "[STABLE] What health checks said, how often.",
            ["name", "status", "type"],
            registry=self._registry,
        )

    def checked(self, name: str, group: str, well: bool) -> None:
        self._state.labels(name, group).set(1 if well else 0)
        self._total.labels(name, "success" if well else "error", group).inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)


class HealthGroup:
    """The checks behind one path."""

    def __init__(self, name: str, checks: Sequence[Check], metrics: HealthMetrics) -> None:
        self.name = name
        self.checks = tuple(checks) or (PING,)
        self._metrics = metrics

    def answer(self, request: Request) -> Response | None:
        """The answer for the path itself or one of its checks; None for any other path."""
        check_name = request.path.removeprefix(f"/{self.name}/")
        if check_name == request.path:
            return self._answer_all(request)
        for check in self.checks:
            if check.name == check_name:
                problem = check.problem()
                if problem is None:
                    return text("ok")
                return text(f"internal server error: {problem}\n", 500)
        return None

    def _answer_all(self, request: Request) -> Response:
        excluded = set(request.query.get("exclude", ()))
        lines: list[str] = []
        failed: list[str] = []
        for check in self.checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            problem = check.problem()
            self._metrics.checked(check.name, self.name, problem is None)
            if problem is None:
                lines.append(f"[+]{check.name} ok")
            else:
                # Anybody may read this page; the reason stands in the log, and on the check's own page.
                lines.append(f"[-]{check.name} failed: reason withheld")
                failed.append(f"{check.name}: {problem}")
        unknown = sorted(excluded - {check.name for check in self.checks})
        if unknown:
            names = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        report = "\n".join(lines)
        if failed:
            log.info("%s check failed", self.name, extra={"failed": "; ".join(failed)})
            return text(f"{report}\n{self.name} check failed\n", 500)
        return text(f"{report}\n{self.name} check passed\n" if "verbose" in request.query else "ok")
