"""What a case is, and how the files of cases are read: one JSON object per line."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec

CASES = Path(__file__).parent / "cases"


class _Wire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The base of the records below. An unknown key is an error: nobody would compare it."""


class Rejection(_Wire, frozen=True):
    """A status: who said it, which code, which reasons."""

    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()


class Candidate(_Wire, frozen=True):
    """A node on which preemption would help, with its victims in order."""

    victims: tuple[str, ...] = ()
    violations: int = msgspec.field(default=0, name="pdbViolations")


class Preemption(_Wire, frozen=True):
    """What preemption could do; any of the `chosen` nodes is right."""

    ineligible: str = ""
    candidates: dict[str, Candidate] = {}
    chosen: tuple[str, ...] = ()
    message: str = ""


class Event(_Wire, frozen=True):
    """Something that happens after the pod was rejected: an object is added, updated or deleted."""

    op: str
    object: msgspec.Raw


class Want(_Wire, frozen=True):
    """What kube-scheduler said of one pod."""

    pod: str
    pre_filter: Rejection | None = None
    narrowed: bool = False
    node_names: tuple[str, ...] = ()
    filter: dict[str, Rejection] = {}
    feasible: tuple[str, ...] = ()
    scores: dict[str, dict[str, int]] = {}
    best: tuple[str, ...] = ()
    message: str = ""
    unschedulable_plugins: tuple[str, ...] = ()
    preemption: Preemption | None = None
    allocations: dict[str, dict[str, tuple[str, ...]]] = {}
    placed: str = ""
    events: tuple[str, ...] = ()
    """Per event of the case, where the rejected pod is then: active, backoff, or it stays."""


class Case(_Wire, frozen=True):
    """A cluster, the pending pods to decide in order, and what is wanted for each."""

    id: str
    objects: tuple[msgspec.Raw, ...]
    pods: tuple[str, ...]
    want: tuple[Want, ...]
    config: msgspec.Raw = msgspec.Raw()
    """A KubeSchedulerConfiguration; empty for the default one."""
    events: tuple[Event, ...] = ()
    """Each happens alone, right after the one pod was rejected."""
    sequence: bool = False
    """Each placed pod stays before the next is decided; else each is decided alone."""


_decoder = msgspec.json.Decoder(Case)


def decode_case(line: bytes) -> Case:
    return _decoder.decode(line)


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a file, which may be gzipped. A line that is no case: a ValueError that says where."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield decode_case(line)
                except msgspec.MsgspecError as error:
                    raise ValueError(f"{path}:{number}: {error}") from error


def family_of(path: Path) -> str:
    """`interpod` for `…/interpod.jsonl.gz`."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def own_files() -> list[Path]:
    """The files of cases that come with the project."""
    return sorted(CASES.glob("*.jsonl.gz"))
