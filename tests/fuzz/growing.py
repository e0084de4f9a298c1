"""Grows objects from the fields of the records themselves, so that no field can be forgotten.

Most values make sense, and one in a few does not: null where a list belongs, enormous numbers, unknown words,
names given twice, deep nesting.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from stowplan.objects import KubeObject, Node, Pod, kind_of_record, known_kinds
from stowplan.objects.kinds import ObjectKind
from stowplan.objects.meta import ObjectMeta

INT64 = 2**63
NUMBERS = (0, 1, 2, 10, 80, 100, 1000, 10**9)
WRONG_NUMBERS = (-1, -INT64, INT64 - 1, INT64, 2**31 - 1, 2**31, -(2**31), 10**30, 1.5, 1e300, -0.0)
QUANTITIES = ("1", "250m", "1.5Gi", "2e3", "100k", "0", 1, 2.5, "10Mi", "1Ti", "4")
WRONG_QUANTITIES = (
    *("", "-1", "1e999999999", "9" * 400, "9" * 2000, "1.", ".", "5 Gi", "NaN", "-9223372036854775809"),
    *("8Ei", "1e16", "١", "0x10", "1e-999999999", "9223372036854775807", "-8Ei", "1n", 1e300, -INT64),
    *(10**30, True),
)  # fmt: skip
TEXTS = (
    *("a", "b", "n0", "n1", "n2", "default", "kube-system", "zone", "x", "y", "", "web"),
    *("kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
    *("metadata.name", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule"),
    *("PreferNoSchedule", "NoExecute", "DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore", "Always"),
    *("Never", "TCP", "UDP", "10.0.0.1", "0.0.0.0", "5", "-7", "ReadWriteOnce", "ReadWriteOncePod"),
    *("ReadOnlyMany", "Block", "Filesystem", "WaitForFirstConsumer", "Immediate"),
    *("kubernetes.io/no-provisioner", "csi.example.com", "gpu.example.com", "pool", "dev-0"),
    *("ExactCount", "All", "Running", "Pending", "Bound", "True", "False", "v1", "apps/v1", "ReplicaSet"),
    *("StatefulSet", "cpu", "memory", "IfHealthyBudget", "example.com/gpu", "hugepages-2Mi"),
    *("attachable-volumes-csi-x", "x:1", "50%", "2", "default-scheduler"),
    *("device.driver == 'gpu.example.com'", "device.attributes['gpu.example.com'].model == 'a'", "true"),
    *("disk", "claim"),
)  # fmt: skip
WRONG_TEXTS = (
    *("\x00", "a" * 300, "a" * 20_000, "-", "a b", "ä", "🦄", "..", "/", "a/b/c", "Sometimes", "{{"),
    *("1" * 5000, "\ud7ff", "device.", "(" * 3000, "size(device.attributes) / 0 == 1"),
    *("[1,2,3].map(x, [1,2,3].map(y, x*y))", "-101%", "9" * 30),
)  # fmt: skip
TIMES = ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00.5+02:00")
WRONG_TIMES = (
    *("", "now", "2024-13-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", 5),
    "2024-05-01",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, "", "x", [], {}, [None], {"": None}, [[]], [{}], {"a": [{"b": {}}]}),
    10**400,
)  # fmt: skip
LABELS = ("app", "zone", "kubernetes.io/hostname", "topology.kubernetes.io/zone")
WORDS = {
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", ""),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", ""),
    "key": ("zone", "kubernetes.io/hostname", "app", "metadata.name", "topology.kubernetes.io/zone"),
    "topology_key": ("zone", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "missing"),
    "when_unsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "node_affinity_policy": ("Honor", "Ignore"),
    "node_taints_policy": ("Honor", "Ignore"),
    "match_label_keys": ("app", "zone"),
    "mismatch_label_keys": ("app", "zone"),
    "namespaces": ("default", "other"),
    "values": ("x", "y", "n0", "n1", "5", "-7", "web", "a"),
    "match_labels": ("x", "web", "a"),
    "protocol": ("TCP", "UDP", "SCTP", ""),
    "phase": ("Pending", "Running", "Bound", "Available", "Released"),
    "allocation_mode": ("ExactCount", "All", ""),
    "device_class_name": ("gpu.example.com",),
    "driver": ("gpu.example.com", "csi.example.com"),
    "provisioner": ("kubernetes.io/no-provisioner", "csi.example.com"),
    "storage_class_name": ("slow", "local", ""),
    "volume_binding_mode": ("WaitForFirstConsumer", "Immediate"),
    "access_modes": ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"),
    "volume_mode": ("Block", "Filesystem", ""),
    "claim_name": ("odd", "a", "web", "claim"),
    "resource_claim_name": ("odd", "a", "web"),
    "nominated_node_name": ("n0", "n1", ""),
    "node_name": ("n0", "n1", "n2"),
    "expression": ("device.driver == 'gpu.example.com'", "'model' in device.attributes['gpu.example.com']"),
    "unhealthy_pod_eviction_policy": ("IfHealthyBudget", "AlwaysAllow"),
    "preemption_policy": ("Never", "PreemptLowerPriority", ""),
    "restart_policy": ("Always", ""),
}  # fmt: skip
"""What makes sense in fields of these names, so that objects get further than to the first check."""
DEMANDS = {
    "schedulerName": 0.1,
    "schedulingGates": 0.1,
    "nodeSelector": 0.1,
    "affinity": 0.5,
    "volumes": 0.4,
    "topologySpreadConstraints": 0.3,
    "resourceClaims": 0.2,
    "resources": 0.3,
    "overhead": 0.3,
}
"""How likely a pod keeps what would keep it from nearly all nodes."""
RESOURCES = (
    "cpu",
    "memory",
    "pods",
    "ephemeral-storage",
    "example.com/gpu",
    "hugepages-2Mi",
    "attachable-volumes-csi-x",
)


@dataclass
class Grower:
    """Grows plain data for a type. `wrong` is the chance of a value that makes no sense, `odd` of one of
    another type, which mostly ends the whole object."""

    rng: random.Random
    wrong: float
    odd: float

    def of(self, kind: inspect.Type, name: str = "", depth: int = 0) -> Any:
        if self.rng.random() < self.odd:
            return self._odd()
        match kind:
            case inspect.UnionType():
                return self._union(kind, name, depth)
            case inspect.StructType():
                return self.record(kind.cls, depth)
            case inspect.VarTupleType() | inspect.ListType():
                return self._many(kind.item_type, name, depth)
            case inspect.DictType():
                keys = (
                    RESOURCES
                    if _is_quantity(kind.value_type)
                    else (LABELS if self.rng.random() < 0.8 else TEXTS)
                )
                size = self.rng.choice((0, 1, 1, 2, 4))
                return {
                    str(self._pick(keys, WRONG_TEXTS)): self.of(kind.value_type, name, depth + 1)
                    for _ in range(size)
                }
            case inspect.BoolType():
                return self.rng.random() < 0.5
            case inspect.IntType() | inspect.FloatType():
                return self._pick(NUMBERS, WRONG_NUMBERS)
            case inspect.CustomType():
                return self._pick(TIMES, WRONG_TIMES)
        return self._pick(WORDS.get(name, TEXTS) if self.rng.random() < 0.9 else TEXTS, WRONG_TEXTS)

    def record(self, record: type[msgspec.Struct], depth: int = 0) -> dict[str, Any]:
        """Some of the fields, fewer the deeper it gets."""
        likely = 0.85 if depth < 2 else 0.65
        grown = {
            encoded: self.of(kind, name, depth + 1)
            for name, encoded, kind in _fields(record)
            if depth < 12 and self.rng.random() < likely
        }
        if self.rng.random() < self.odd:
            grown[self.rng.choice(TEXTS)] = self._odd()
        return grown

    def manifest(self, kind: ObjectKind) -> dict[str, Any]:
        """An object of this kind."""
        grown: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.name}
        grown["metadata"] = metadata = self.record(ObjectMeta)
        if self.rng.random() >= self.odd:
            metadata |= {"name": self.rng.choice(("odd", "odd", "a", "n1", "web")), "uid": "odd"}
            metadata["namespace"] = self.rng.choice(("default", "default", "other"))
        for name, encoded, own in _fields(kind.record):
            if name not in _METADATA and name != "node_name" and self.rng.random() < 0.95:
                grown[encoded] = self.of(own, name)
        if kind.record is Pod:
            self._finish_pod(grown.get("spec"))
        return grown

    def _finish_pod(self, spec: Any) -> None:
        """Has most pods be ours, and makes few demands of each, so that some are met."""
        if isinstance(spec, dict):
            for demand, kept in DEMANDS.items():
                if self.rng.random() > kept:
                    spec.pop(demand, None)
            if self.rng.random() < 0.3:
                spec["nodeName"] = self._pick(("n0", "n1", "nowhere"), WRONG_TEXTS)

    def _union(self, kind: inspect.UnionType, name: str, depth: int) -> Any:
        if _is_quantity(kind):
            return self._pick(QUANTITIES, WRONG_QUANTITIES)
        choices = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        return self.of(self.rng.choice(choices), name, depth)

    def _many(self, item: inspect.Type, name: str, depth: int) -> list[Any]:
        grown = [self.of(item, name, depth + 1) for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3)))]
        if grown and self.rng.random() < self.wrong:
            grown *= self.rng.choice((2, 2, 200))  # everything given twice, or far too often
        return grown

    def _pick(self, right: Sequence[Any], wrong: Sequence[Any]) -> Any:
        return self.rng.choice(wrong if self.rng.random() < self.wrong else right)

    def _odd(self) -> Any:
        if self.rng.random() < 0.05:
            return f"{_DEEP}{self.rng.choice((50, 500, 5000))}"
        return self.rng.choice(ODD)


_METADATA = frozenset(KubeObject.__struct_fields__)
_DEEP = "nested:"
"""Stands for a value that no encoder would write, because it is nested too deeply."""
_DEEP_TEXT = re.compile(f'"{_DEEP}([0-9]+)"')


@cache
def _fields(record: type[msgspec.Struct]) -> list[tuple[str, str, inspect.Type]]:
    """Name, name in JSON and type of every field."""
    every = msgspec.structs.fields(record)
    return [(each.name, each.encode_name, inspect.type_info(each.type)) for each in every]


def _is_quantity(kind: inspect.Type) -> bool:
    if not isinstance(kind, inspect.UnionType):
        return False
    return {inspect.IntType, inspect.FloatType, inspect.StrType} <= {type(one) for one in kind.types}


def as_json(manifest: Any) -> str:
    """The manifest as text; this is where deep nesting gets in."""
    return _DEEP_TEXT.sub(lambda found: _nested(int(found[1])), json.dumps(manifest))


def _nested(depth: int) -> str:
    return '[{"a":' * (depth // 2) + "1" + "}]" * (depth // 2)


@dataclass(frozen=True)
class Input:
    """An object as text, and the same object as it might look later."""

    number: int
    kind: ObjectKind
    text: str
    later: str
    """Empty when it does not change."""
    damaged: bool
    """Whether it need not be JSON any more."""


def grow(seed: int, number: int) -> Input:
    """The input of this number: the same for the same seed, whatever came before."""
    rng = random.Random(f"{seed}/{number}")
    kinds = sorted(known_kinds(), key=lambda kind: kind.name)
    kind = rng.choice(kinds) if rng.random() < 0.5 else kind_of_record(rng.choice((Pod, Pod, Node)))
    grower = Grower(rng, rng.choice((0.0, 0.01, 0.05, 0.15)), rng.choice((0.0, 0.0, 0.001, 0.01)))
    manifest = grower.manifest(kind)
    if number % 3 == 2:
        return Input(number, kind, _damaged(rng, as_json(manifest)), "", damaged=True)
    later = grower.manifest(kind) if number % 3 else {}
    if later and isinstance(manifest["metadata"], dict) and isinstance(later["metadata"], dict):
        later["metadata"] |= {key: manifest["metadata"].get(key) for key in ("name", "namespace", "uid")}
        later["metadata"]["resourceVersion"] = "a later one"
        _keep(manifest.get("spec"), later.get("spec"), ("nodeName", "schedulerName"))
        for status in (manifest.get("status"), later.get("status")):
            if isinstance(status, dict):
                # Whether a pod that is gated has a nomination depends on what was before, as upstream.
                status.pop("nominatedNodeName", None)
    return Input(number, kind, as_json(manifest), as_json(later) if later else "", damaged=False)


def _keep(before: Any, after: Any, fields: Sequence[str]) -> None:
    """Has the fields stay as they are once they are set, as the API server has it."""
    if isinstance(before, dict) and isinstance(after, dict):
        after |= {field: before[field] for field in fields if before.get(field)}


def _damaged(rng: random.Random, text: str) -> str:
    """A few cuts, repeats and strokes of the pen."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 2, 10, 40)))
        instead = rng.choice(("", text[start:end] * 2, rng.choice(_STROKES)))
        text = text[:start] + instead + text[end:]
    return text


_STROKES = (
    *("{", "}", "[", "]", ",", ":", '"', "\\", "null", "-", "0", "1e999", "\\u0000", "\\ud800", "\x00"),
    *("\x7f", "ä", "🦄", "9" * 40, '"a":1,', "[]", "{}", "true", "NaN", "'", "# ", "*a", "&a"),
    *("!!binary ", "<<: ", "\n- ", "\t", "|", "%"),
)  # fmt: skip
