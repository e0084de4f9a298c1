"""The whole: start, one fault after the other, and what there is to say about it."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.control_plane.plane import ControlPlane
from tests.soak.faults import FAULTS
from tests.soak.replicas import LeaseTimes, Replica, resident
from tests.soak.run import Run

_SETTLE_SECONDS = 90.0
_START_SECONDS = 60.0
_FIRST_RELISTS = 3
_RELISTS = 8
_GROWTH = 0.04
"""The share that memory may grow by while everything is listed again and again, after the first times."""
_COMPARED_SECONDS = 30.0
COMPARED = "cache comparer finished", "cache mismatch"
_MOST_TASKS = 60
"""About twenty kinds are followed, and a few more things go on. Pods on their way have a task each."""


@dataclass(frozen=True)
class Settings:
    """How much of it."""

    pods: int = 20_000
    nodes: int = 500
    faults: int = 36
    seed: int = 1
    times: LeaseTimes = field(default_factory=LeaseTimes)


@dataclass
class Happened:
    """One fault, and how it went."""

    number: int
    name: str
    at: float
    details: str
    lasted: float
    recovery: float | None
    """Seconds after it until every pod had a node that could have one. None: not in time."""
    violations: list[str]

    @property
    def good(self) -> bool:
        return self.recovery is not None and not self.violations

    def line(self) -> str:
        result = (
            f"settled {self.recovery:.1f} s later" if self.recovery is not None else "NOT SETTLED in time"
        )
        text = (
            f"{self.at:7.1f} s  {self.number:2}  {self.name}: {self.details} ({self.lasted:.1f} s); {result}"
        )
        return "\n".join([text, *(f"{'':15}VIOLATION: {each}" for each in self.violations)])


@dataclass
class Report:
    """What there is to say in the end."""

    settings: Settings
    faults: list[Happened] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Whatever is wrong and belongs to no single fault."""
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        enough = len(self.faults) >= self.settings.faults
        return enough and not self.problems and all(fault.good for fault in self.faults)

    def encoded(self) -> str:
        return json.dumps({"good": self.good, **asdict(self)}, indent=2)


async def soak(
    plane: ControlPlane, settings: Settings, folder: Path, say: Callable[[str], None] = print
) -> Report:
    """One run. Never raises for what the schedulers do wrong: that is in the report."""
    report = Report(settings)
    share = settings.pods // (settings.faults + 2)
    run = Run(plane, folder, settings.pods, settings.nodes, share, settings.seed, settings.times)
    started = time.monotonic()
    try:
        run.load.burst(share)
        await run.start()
        if not await run.settled(_START_SECONDS):
            report.problems.append(f"the first pods were not placed within {_START_SECONDS:.0f} s")
            return report
        for number, name in enumerate(order(settings.faults, run.chance), 1):
            happened = await _one_fault(run, number, name, started)
            report.faults.append(happened)
            say(happened.line())
            if run.load.failure is not None or run.watcher.failure is not None:
                break
        await _finish(run, report, say)
    finally:
        await run.close()
        seconds = time.monotonic() - started
        report.facts |= _facts(run) | {"seconds": round(seconds, 1)}
        for what, failure in (("load", run.load.failure), ("watcher", run.watcher.failure)):
            if failure is not None:
                report.problems.append(f"the {what} of the run itself failed: {failure!r}")
    return report


def order(count: int, chance: random.Random) -> list[str]:
    """Every fault once, the most telling first, then again in any order."""
    names = list(FAULTS)
    while len(names) < count:
        names += chance.sample(list(FAULTS), len(FAULTS))
    return names[:count]


async def _one_fault(run: Run, number: int, name: str, started: float) -> Happened:
    """A fault in the middle of a burst of pods, then quiet until all pods are where they can be."""
    before = len(run.ledger.violations), len(run.book.violations)
    run.make_room()
    seen = run.ledger.bindings
    run.load.burst(run.share // 2)
    await run.until(lambda: run.ledger.bindings > seen + run.chance.randint(0, run.share // 4), 5.0)
    at = time.monotonic()
    violations = []
    try:
        details = await FAULTS[name](run)
    except Exception as problem:  # noqa: BLE001 -- a fault that could not happen is a result like any other
        details = ""
        violations.append(f"the fault failed: {type(problem).__name__}: {problem}")
    ended = time.monotonic()
    remaining = run.share * (number + 1) - (run.pods - run.load.left)
    run.load.burst(max(remaining, 0))
    settled = await run.settled(_SETTLE_SECONDS)
    recovery = time.monotonic() - ended if settled else None
    if not settled:
        lost = run.ledger.waiting_for_nothing()
        violations.append(
            f"{len(lost)} pods are pending though there is room: {', '.join(p.name for p in lost[:5])}"
        )
    violations += run.ledger.violations[before[0] :] + run.book.violations[before[1] :]
    return Happened(number, name, at - started, details, ended - at, recovery, violations)


async def _finish(run: Run, report: Report, say: Callable[[str], None]) -> None:
    """The rest of the pods; then: memory, what the scheduler itself finds, pending pods, polite ends."""
    before = len(run.ledger.violations), len(run.book.violations)
    run.make_room()
    run.load.burst(run.load.left)
    if not await run.settled(_SETTLE_SECONDS):
        report.problems.append("not all pods were placed in the end")
    leader = await run.leader()
    await _relist_again_and_again(run, leader, report)
    await _ask_itself(run, leader, report)
    await asyncio.sleep(2)
    report.problems += run.ledger.final_violations()
    if run.load.created != run.pods:
        report.problems.append(f"only {run.load.created} of {run.pods} pods were created")
    codes = {replica.name: await asyncio.to_thread(replica.stop) for replica in run.replicas}
    report.problems += [
        f"{name} ended with code {code} when asked to stop" if code is not None else f"{name} did not stop"
        for name, code in codes.items()
        if code != 0
    ]
    report.problems += run.ledger.violations[before[0] :] + run.book.violations[before[1] :]
    for replica in run.replicas:
        report.problems += replica.troubles()
    for problem in report.problems:
        say(f"PROBLEM: {problem}")


async def _relist_again_and_again(run: Run, leader: Replica, report: Report) -> None:
    """What is listed again and again must not pile up."""
    expire = FAULTS["watches expired (410)"]
    sizes = []
    for _ in range(_FIRST_RELISTS + _RELISTS):
        await expire(run)
        await asyncio.sleep(1.5)
        sizes.append(round(resident(leader.pid), 1))
    report.facts["megabytesOverRelists"] = sizes
    base = sizes[_FIRST_RELISTS - 1]
    if sizes[-1] > base * (1 + _GROWTH):
        report.problems.append(f"memory grew from {base} to {sizes[-1]} MB over {_RELISTS} relists")


async def _ask_itself(run: Run, leader: Replica, report: Report) -> None:
    """On SIGUSR2 a scheduler says what it knows, and compares that with the API server."""
    before = leader.log.stat().st_size
    leader.send(signal.SIGUSR2)

    def said() -> str:
        with leader.log.open("rb") as log:
            log.seek(before)
            return log.read().decode(errors="replace")

    await run.until(lambda: any(each in said() for each in COMPARED), _COMPARED_SECONDS)
    report.facts["itself"], problems = judge_dump(said())
    report.problems += [f"{leader.name}: {problem}" for problem in problems]


def judge_dump(text: str) -> tuple[dict[str, int], list[str]]:
    """What a scheduler at rest says about itself, and what of it should not be."""
    found = {name: int(value) for name, value in re.findall(r"\b(tasks|assumed|inFlight)=(\d+)", text)}
    problems = [
        f"at rest, {name} is {found.get(name)}" for name in ("assumed", "inFlight") if found.get(name) != 0
    ]
    if found.get("tasks", _MOST_TASKS + 1) > _MOST_TASKS:
        problems.append(f"{found.get('tasks')} tasks are alive at rest, more than {_MOST_TASKS}")
    if COMPARED[0] not in text:
        line = next((line for line in text.splitlines() if COMPARED[1] in line), "it said nothing")
        problems.append(f"its cache is not what the API server says: {line[:400]}")
    return found, problems


def _facts(run: Run) -> dict[str, object]:
    lives = [life for replica in run.replicas for life in replica.lives]
    return {
        "pods": {
            "created": run.load.created,
            "finished": run.load.finished,
            "pending": len(run.ledger.pending()),
        },
        "bindingsSeen": run.ledger.bindings,
        "bindingsSent": run.book.bindings,
        "answersToBindings": dict(run.journal.answers),
        "requests": {proxy.replica: dict(proxy.counts) for proxy in run.proxies},
        "takeovers": run.book.takeovers,
        "watcherRelists": run.ledger.relists,
        "processes": [
            {
                "replica": life.replica,
                "seconds": round((life.ended or time.monotonic()) - life.started, 1),
                "code": life.code,
                "endedByTheRun": life.wanted,
                "megabytes": round(max((size for _, size in life.resident), default=0.0), 1),
            }
            for life in lives
        ],
    }
