"""The short run of `make fuzz`, and that it notices what it is there for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from stowplan.cluster import Cluster, Nodes
from stowplan.framework import CycleState
from stowplan.objects import Pod, kind_of_record
from stowplan.objects.kinds import ObjectKind
from stowplan.plugins.node_affinity import NodeAffinity
from tests.fuzz.growing import Input, grow
from tests.fuzz.trying import LONGEST, Fuzzer

SEED = 1
INPUTS = 2400


def test_whatever_an_object_says_it_is_refused_clearly_or_harms_nobody() -> None:
    """All are read. The cluster lives with those only that also change: it takes ten times as long."""
    fuzzer = Fuzzer()
    for number in range(INPUTS):
        given = grow(SEED, number)
        fuzzer.try_out(given, only_read=not given.later)
    assert not fuzzer.findings, f"seed {SEED}, input {fuzzer.findings[0]}"
    tried = fuzzer.tried
    assert tried["all"] == INPUTS
    steps = ("refused", "read", "taken in", "changed", "decided: SUCCESS", "decided: UNSCHEDULABLE")
    assert all(tried[step] for step in (*steps, "decided: ERROR")), tried


def test_an_input_is_the_same_whatever_came_before() -> None:
    assert grow(3, 7) == grow(3, 7)
    assert grow(3, 7).text != grow(4, 7).text


def pod(**spec: Any) -> Input:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "uid": "odd"}, "spec": spec}
    return Input(0, kind_of_record(Pod), json.dumps(manifest), "", damaged=False)


def raises_another_error(self: ObjectKind, source: Any) -> None:
    raise KeyError("spec")


def names_no_field(self: ObjectKind, source: Any) -> None:
    from stowplan.objects import ObjectError

    raise ObjectError("something is wrong")


def takes_forever(self: ObjectKind, source: Any) -> None:
    time.sleep(60)


@pytest.mark.parametrize("wrong", [raises_another_error, names_no_field])
def test_it_notices_reading_that_goes_wrong(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., None]
) -> None:
    fuzzer = Fuzzer()
    with monkeypatch.context() as patched:
        patched.setattr(ObjectKind, "decode", wrong)
        patched.setattr(fuzzer, "_begin", lambda: None)
        fuzzer.try_out(pod())
    assert len(fuzzer.findings) == 1


def test_it_ends_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzzer = Fuzzer(longest=0.05)
    with monkeypatch.context() as patched:
        patched.setattr(ObjectKind, "decode", takes_forever)
        patched.setattr(fuzzer, "_begin", lambda: None)
        fuzzer.try_out(pod())
    assert "took more than 0.05 s" in fuzzer.findings[0].problem
    assert LONGEST > 1


def forgets_to_remove(self: Cluster, uid: str) -> None:
    pass


def test_it_notices_a_state_that_is_not_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzzer = Fuzzer()
    monkeypatch.setattr(Cluster, "remove_pod", forgets_to_remove)
    fuzzer.try_out(pod(nodeName="n0"))
    assert len(fuzzer.findings) == 1


def fails_for_others(self: NodeAffinity, state: CycleState, pod: Pod, nodes: Nodes) -> None:
    if "odd" in self.handle.cluster.pods and pod.uid != "odd":
        raise KeyError("odd")


def test_it_notices_an_error_of_another_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzzer = Fuzzer()
    monkeypatch.setattr(NodeAffinity, "pre_filter", fails_for_others)
    fuzzer.try_out(pod(nodeName="n0"))
    assert 'running PreFilter plugin "NodeAffinity"' in fuzzer.findings[0].problem
