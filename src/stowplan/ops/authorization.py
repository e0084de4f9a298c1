"""What a user may see here: the API server's RBAC says so, asked for each path and remembered for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from stowplan.kube.errors import ApiError
from stowplan.ops.authentication import User
from stowplan.ops.remembering import Remembered

ALWAYS_ALLOWED_PATHS = ("/healthz", "/readyz", "/livez")
ALWAYS_ALLOWED_GROUPS = frozenset({"system:masters"})


class AuthorizationError(Exception):
    """Nobody could say whether it is allowed."""


class Permission(NamedTuple):
    """Whether, and where known why not."""

    allowed: bool
    reason: str = ""


class AccessReviewer(Protocol):
    """What is asked of the API server."""

    async def create(self, obj: Mapping[str, Any]) -> Any: ...


class Authorizer:
    """Decides on paths. Without a reviewer, only what is always allowed is."""

    def __init__(
        self,
        reviewer: AccessReviewer | None = None,
        *,
        always_allowed: Iterable[str] = ALWAYS_ALLOWED_PATHS,
        seconds_allowed: float = 10.0,
        seconds_denied: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A ValueError says which path cannot be one. `*` at the end of a path stands for all below it."""
        self._reviewer = reviewer
        self._seconds_allowed = seconds_allowed
        self._seconds_denied = seconds_denied
        self._known: Remembered[tuple[User, str, str], Permission] = Remembered(clock)
        self._paths: set[str] = set()
        self._prefixes: list[str] = []
        for path in always_allowed:
            bare = path.removeprefix("/")
            if "*" in bare[:-1]:
                raise ValueError(f"{path!r}: only the end of a path can be *")
            if bare.endswith("*"):
                self._prefixes.append(bare[:-1])
            else:
                self._paths.add(bare)

    async def permission(self, user: User, verb: str, path: str) -> Permission:
        """Raises AuthorizationError when the API server cannot be asked."""
        bare = path.removeprefix("/")
        if ALWAYS_ALLOWED_GROUPS.intersection(user.groups):
            return Permission(True)
        if bare in self._paths or any(bare.startswith(prefix) for prefix in self._prefixes):
            return Permission(True)
        if self._reviewer is None:
            return Permission(False)
        key = (user, verb, path)
        known = self._known.get(key)
        if known is None:
            known = await self._ask(self._reviewer, user, verb, path)
            self._known.put(key, known, self._seconds_allowed if known.allowed else self._seconds_denied)
        return known

    async def _ask(self, reviewer: AccessReviewer, user: User, verb: str, path: str) -> Permission:
        spec: dict[str, Any] = {
            "user": user.name,
            "groups": list(user.groups),
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": spec,
        }
        try:
            answer = await reviewer.create(review)
        except ApiError as problem:
            raise AuthorizationError(str(problem)) from None
        status = answer.get("status") or {}
        return Permission(bool(status.get("allowed")), status.get("reason") or "")
