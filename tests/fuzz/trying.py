"""Tries inputs one after the other on a cluster that must not mind, and says where it did."""

from __future__ import annotations

import re
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import msgspec

from stowplan.framework.status import Code
from stowplan.objects import (
    KubeObject,
    LabelSelector,
    NodeSelector,
    ObjectError,
    Pod,
    SelectorError,
    compile_node_selector,
    compile_preferred_terms,
    compile_selector,
    decode_object,
    decode_yaml,
)
from stowplan.objects.pod import NodeAffinity
from tests.fuzz.growing import Input
from tests.fuzz.world import Complaints, World, base_objects, needy_pods, ordinary_pods

_NAMES_SOMEONE = re.compile(r'running \w* ?(plugin )?"[A-Z]\w+"|nodes are available')
"""Why a pod has no node: a plugin that failed, or what each node lacks."""
LONGEST = 5.0
"""How many seconds one input may take. Nearly all take a few thousandths."""
_LONGEST_YAML = 20_000
_START_OVER = 4
"""For one in so many inputs a cluster is built from scratch: that takes longer than all the rest."""
_CLEAR = re.compile(r"YAML: .|[A-Z]\w+ .+?: (.+: .|is nested too deeply)", re.DOTALL)
"""Says which object and which field, or that nobody can read so far into it."""


class TooLong(BaseException):
    """No `except Exception` on the way can keep it."""


@dataclass
class Finding:
    """Something that should not have happened, with what it takes to make it happen again."""

    number: int
    text: str
    problem: str


@dataclass
class Fuzzer:
    """A cluster that lives through all inputs, as one of a scheduler does."""

    longest: float = LONGEST
    tried: Counter[str] = field(default_factory=Counter)
    """How many inputs came how far."""
    findings: list[Finding] = field(default_factory=list)
    slowest: float = 0.0

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._world = World(base_objects())
        self._base = dict(self._world.objects)
        self._state = self._world.state()
        self._ordinary, self._needy = ordinary_pods(), needy_pods()
        self._answers = self._world.answers((*self._ordinary, *self._needy))

    def try_out(self, given: Input, *, only_read: bool = False) -> None:
        """Whatever is wrong becomes a finding, and the next input meets a cluster that is as good as new."""
        started = time.perf_counter()
        with Complaints() as complaints:
            try:
                with time_limit(self.longest):
                    self._try_out(given, only_read)
            except (Exception, TooLong):  # noqa: BLE001 - whatever it is, it should not have been
                complaints.lines.append(traceback.format_exc())
        self.slowest = max(self.slowest, time.perf_counter() - started)
        self.tried["all"] += 1
        if complaints.lines:
            self.findings.append(Finding(given.number, given.text, "\n".join(complaints.lines)))
            self._begin()

    def _try_out(self, given: Input, only_read: bool) -> None:
        if len(given.text) < _LONGEST_YAML:
            for document in read_or_refuse(decode_yaml, given) or ():
                compile_all(document)
        obj = read_or_refuse(decode_object, given)
        if obj is None:
            self.tried["refused"] += 1
            return
        compile_all(obj)
        self.tried["read"] += 1
        if only_read:
            return
        self.tried["taken in"] += 1
        self._live_with(obj, given.number)
        later = read_or_refuse(decode_object, given, given.later) if given.later else None
        if later is not None and may_become(obj, later):
            self.tried["changed"] += 1
            self._live_with(later, given.number)
            obj = later
        self._part_from(obj)

    def _live_with(self, obj: KubeObject, number: int) -> None:
        """The object is there. Others are decided as they would be had it always been there."""
        world = self._world
        world.put(obj)
        if isinstance(obj, Pod) and not obj.node_name and obj.spec.scheduler_name in world.scheduler.profiles:
            decision = world.decide(obj)
            world.scheduler.explain(obj)
            self.tried[
                f"decided: {(Code.SUCCESS if decision.status is None else decision.status.code).name}"
            ] += 1
            assert decision.node_name or _NAMES_SOMEONE.search(decision.message), decision.message
        answers = world.answers((*self._ordinary, *self._needy))
        for pod in self._ordinary:
            assert answers[pod.name][0] is not Code.ERROR, f"{pod.name}: {answers[pod.name]}"
        if isinstance(obj, Pod) and not (obj.node_name or obj.status.nominated_node_name):
            must_equal(answers, self._answers)
            assert world.cluster.pods == self._state["pods"]
        if number % _START_OVER == 0:
            fresh = world.start_over()
            must_equal(answers, fresh.answers((*self._ordinary, *self._needy)))
            must_equal(world.state(), fresh.state())

    def _part_from(self, obj: KubeObject) -> None:
        """The object is gone, and nothing of it is left."""
        self._world.remove(obj)
        before = self._base.get((type(obj), obj.key))
        if before is not None:
            self._world.put(before)
        must_equal(self._world.state(), self._state)
        must_equal(self._world.answers((*self._ordinary, *self._needy)), self._answers)


def may_become(obj: KubeObject, later: KubeObject) -> bool:
    """Whether the API server lets an object change so. No pod changes its scheduler, or leaves its node."""
    if (later.key, later.uid) != (obj.key, obj.uid):
        return False
    if not isinstance(obj, Pod) or not isinstance(later, Pod):
        return True
    return later.spec.scheduler_name == obj.spec.scheduler_name and (
        later.node_name == obj.node_name or not obj.node_name
    )


def read_or_refuse(decode: Callable[[str], Any], given: Input, text: str = "") -> Any:
    """What was read; None when it was refused with an error that names object and field."""
    try:
        return decode(text or given.text)
    except ObjectError as error:
        if not given.damaged:
            assert _CLEAR.match(str(error)), str(error)  # noqa: PT017 - it may be raised, but not like this
        return None


def compile_all(record: Any) -> None:
    """Compiles every selector in an object, however deep."""
    for part in records_in(record):
        try:
            if isinstance(part, LabelSelector):
                compile_selector(part)
            elif isinstance(part, NodeSelector):
                compile_node_selector(part)
            elif isinstance(part, NodeAffinity):
                compile_preferred_terms(part.preferred)
        except SelectorError as error:
            assert str(error)  # noqa: PT017 - it is expected, and must not be empty


def records_in(value: Any) -> Iterator[msgspec.Struct]:
    """The record and all records in it."""
    if isinstance(value, msgspec.Struct):
        yield value
        value = tuple(getattr(value, name) for name in value.__struct_fields__)
    elif isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for part in value:
            yield from records_in(part)


def must_equal(now: Any, expected: Any, where: str = "") -> None:
    """Complains about the first parts that differ, and not about all there is."""
    if isinstance(now, dict) and isinstance(expected, dict) and now.keys() == expected.keys():
        for key in now:
            must_equal(now[key], expected[key], f"{where}/{key}")
    else:
        assert now == expected, f"{where}: {now!r} should be {expected!r}"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Ends what takes too long, wherever it is."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
