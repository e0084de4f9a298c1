from __future__ import annotations

import asyncio

import pytest

from stowplan.ops.authentication import NOBODY, User
from stowplan.ops.authorization import Authorizer


def allowed(authorizer: Authorizer, path: str, user: User = NOBODY) -> bool:
    return asyncio.run(authorizer.permission(user, "get", path)).allowed


def test_paths_and_all_below_them() -> None:
    authorizer = Authorizer(always_allowed=("/healthz", "/open/*"))
    assert allowed(authorizer, "/healthz")
    assert not allowed(authorizer, "/healthz/")
    assert not allowed(authorizer, "/healthz/x")
    assert allowed(authorizer, "/open/a/b")
    assert not allowed(authorizer, "/openly")


def test_masters_may_do_anything() -> None:
    assert allowed(Authorizer(), "/metrics", User("root", ("system:masters",)))


def test_a_star_in_the_middle_is_refused() -> None:
    with pytest.raises(ValueError, match="only the end"):
        Authorizer(always_allowed=("/a/*/b",))
