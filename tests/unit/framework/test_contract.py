"""What a plugin's author imports comes from one place."""

from __future__ import annotations

import stowplan.framework
from stowplan.framework.contract import POINTS, PostFilterResult, Preflight, Wait


def test_everything_that_a_plugin_derives_from_or_answers_is_exported() -> None:
    needed = {*(base.__name__ for base in POINTS.values())}
    needed |= {answer.__name__ for answer in (PostFilterResult, Preflight, Wait)}
    assert needed <= set(stowplan.framework.__all__)
    assert all(hasattr(stowplan.framework, name) for name in needed)
