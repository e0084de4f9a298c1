"""The kinds of object that are known, and how one of each is read from JSON or from plain data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from stowplan.objects import devices, storage, workloads
from stowplan.objects.base import ObjectError, Record
from stowplan.objects.checks import FieldError, quantity_check
from stowplan.objects.meta import KubeObject, ObjectMeta, decode_time, intern_labels
from stowplan.objects.node import Node
from stowplan.objects.pod import NO_SPEC, Pod, PodSpec, PodStatus

Json: TypeAlias = bytes | bytearray | memoryview | msgspec.Raw | str
Source: TypeAlias = Json | Mapping[str, Any]

MISREAD = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading can raise for text that is not what it should be."""


class ObjectKind:
    """A kind of object: its names and API version, the record that holds it, and how to read one."""

    def __init__(
        self, record: type[KubeObject], api_version: str, kind: str = "", *, namespaced: bool = False
    ) -> None:
        self.record = record
        self.api_version = api_version
        self.group = _group(api_version)
        self.namespaced = namespaced
        self.name = kind or record.__name__
        self.plural = plural(self.name)
        self._build: Callable[[Any], KubeObject]
        if record is Pod:
            self._wire = _wire_struct(record, spec=_PodSpecWire)
            self._build = _build_pod
        else:
            self._wire = _wire_struct(record)
            self._build = _builder(record, namespaced)
        self._decoder = msgspec.json.Decoder(self._wire, dec_hook=decode_time)

    def decode(self, source: Source) -> KubeObject:
        """Read an object of this kind; an ObjectError says what is wrong with it."""
        try:
            if isinstance(source, bytes) or not isinstance(source, Mapping):
                try:
                    return self._build(self._decoder.decode(source))
                except msgspec.ValidationError:
                    source = msgspec.json.decode(source)
            # As in Go, null stands for absent; JSON that holds one where it matters comes here too.
            return self._build(msgspec.convert(without_nulls(source), self._wire, dec_hook=decode_time))
        except FieldError as error:
            problem = f"{error.path}: {error.reason}"
        except MISREAD as error:
            problem = explain(error)
        raise ObjectError(f"{self.name} {name_in(source)}: {problem}")


def plural(kind: str) -> str:
    """The name of a kind in paths and rules: `StorageClass` is `storageclasses`."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch", "sh")):
        return lower + "es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return lower[:-1] + "ies"
    return lower + "s"


_METADATA = frozenset(KubeObject.__struct_fields__)


def _wire_struct(record: type[Record], **other_types: Any) -> Any:
    """The struct that reads a record's JSON, in which metadata is nested and `other_types` are as given."""
    whole_object = issubclass(record, KubeObject)
    fields: list[Any] = [("metadata", ObjectMeta, ObjectMeta())] if whole_object else []
    for field in msgspec.structs.fields(record):
        if whole_object and field.name in _METADATA:
            continue
        other = other_types.pop(field.name, None)
        declared: Any
        if field.default_factory is not msgspec.NODEFAULT:
            declared = msgspec.field(name=field.encode_name, default_factory=field.default_factory)
        else:
            declared = msgspec.field(name=field.encode_name, default=other() if other else field.default)
        fields.append((field.name, other or field.type, declared))
    fields += [(name, kind, kind()) for name, kind in other_types.items()]
    return msgspec.defstruct(f"{record.__name__}Wire", fields, bases=(Record,), frozen=True)


def _flat(metadata: ObjectMeta) -> dict[str, Any]:
    return {
        "name": metadata.name,
        "namespace": sys.intern(metadata.namespace),
        "uid": metadata.uid,
        "labels": intern_labels(metadata.labels),
        "annotations": metadata.annotations,
        "resource_version": metadata.resource_version,
        "generation": metadata.generation,
        "created": metadata.creation_timestamp or 0.0,
        "deleted": metadata.deletion_timestamp,
        "owners": metadata.owner_references,
    }


def _builder(record: type[KubeObject], namespaced: bool) -> Callable[[Any], KubeObject]:
    """What makes a record of the wire's. A namespace means nothing in a kind that lives in none, as for the
    API server; kept, it would be a part of the object's key, and nobody would find the object by its name."""
    own_fields = [name for name in record.__struct_fields__ if name not in _METADATA]
    check = quantity_check(record)

    def build(wire: Any) -> KubeObject:
        metadata = _flat(wire.metadata)
        if not namespaced:
            metadata["namespace"] = ""
        built = record(**metadata, **{name: getattr(wire, name) for name in own_fields})
        if check is not None:
            check(built)
        return built

    return build


_PodSpecWire = _wire_struct(PodSpec, node_name=str)
_check_status = quantity_check(PodStatus)
_check_spec = quantity_check(PodSpec)
_spec_encoder = msgspec.json.Encoder(order="deterministic")
_spec_decoder = msgspec.json.Decoder(PodSpec)
_shapes = WeakValueDictionary({_spec_encoder.encode(NO_SPEC): NO_SPEC})


def _build_pod(wire: Any) -> Pod:
    node_name = wire.spec.node_name
    shape = _shape_of(wire.spec)
    if _check_status is not None:
        try:
            _check_status(wire.status)
        except FieldError as error:
            raise error.below("status") from None
    return Pod(spec=shape, node_name=sys.intern(node_name), status=wire.status, **_flat(wire.metadata))


def _shape_of(spec: Any) -> PodSpec:
    """The shared spec for all pods that look like this one to a scheduler."""
    # The node and the volumes that do not matter differ between pods of one shape.
    if spec.node_name:
        msgspec.structs.force_setattr(spec, "node_name", "")
    if spec.volumes:
        msgspec.structs.force_setattr(spec, "volumes", tuple(v for v in spec.volumes if v.matters))
    content = _spec_encoder.encode(spec)
    shape = _shapes.get(content)
    if shape is None:
        shape = _spec_decoder.decode(content)
        if _check_spec is not None:
            try:
                _check_spec(shape)
            except FieldError as error:
                raise error.below("spec") from None
        _shapes[content] = shape
    return shape


def without_nulls(plain: Any) -> Any:
    """Plain data with all nulls taken out; they stand for absent values."""
    if isinstance(plain, Mapping):
        return {key: without_nulls(item) for key, item in plain.items() if item is not None}
    if isinstance(plain, list | tuple):
        return [without_nulls(item) for item in plain if item is not None]
    return plain


def explain(error: Exception) -> str:
    """What reading complained about, with the path to the field in front."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    message, _, path = str(error).replace("`", "").rpartition(" - at ")
    if not message:
        return path
    message = message[0].lower() + message[1:]
    return f"{path.removeprefix('$').removeprefix('.')}: {message}" if path != "$" else message


def name_in(source: Source) -> str:
    """`namespace/name` of something that may not even be an object, for messages."""
    try:
        plain = source if isinstance(source, Mapping) else msgspec.json.decode(source)
        metadata = plain["metadata"]
        name = metadata.get("name") or metadata.get("generateName") or "without a name"
        return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)
    except (*MISREAD, TypeError, AttributeError, LookupError):
        return "without a name"


_kinds: dict[tuple[str, str], ObjectKind] = {}


def register_kind(
    record: type[KubeObject], api_version: str, kind: str = "", *, namespaced: bool = False
) -> ObjectKind:
    """Make a kind of object known; the kind is called as the record unless said otherwise."""
    known = ObjectKind(record, api_version, kind, namespaced=namespaced)
    _kinds[_group(api_version), known.name] = known
    return known


def known_kinds() -> Iterator[ObjectKind]:
    """All kinds that can be decoded."""
    return iter(_kinds.values())


def kind_of_record(record: type[KubeObject]) -> ObjectKind:
    """The kind whose objects this record holds."""
    for kind in known_kinds():
        if kind.record is record:
            return kind
    raise TypeError(f"{record.__name__} is not a kind of object that was registered")


def find_kind(kind: str, api_version: str = "") -> ObjectKind | None:
    """The kind with this name in the group of the API version; without a version, in any group."""
    if api_version:
        return _kinds.get((_group(api_version), kind))
    return next((known for known in _kinds.values() if known.name == kind), None)


def _group(api_version: str) -> str:
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""


_CLUSTER_WIDE: tuple[tuple[type[KubeObject], str], ...] = (
    (Node, "v1"),
    (storage.PersistentVolume, "v1"),
    (storage.StorageClass, "storage.k8s.io/v1"),
    (storage.CSINode, "storage.k8s.io/v1"),
    (storage.CSIDriver, "storage.k8s.io/v1"),
    (storage.VolumeAttachment, "storage.k8s.io/v1"),
    (workloads.Namespace, "v1"),
    (workloads.PriorityClass, "scheduling.k8s.io/v1"),
    (devices.ResourceSlice, "resource.k8s.io/v1"),
    (devices.DeviceClass, "resource.k8s.io/v1"),
)
_NAMESPACED: tuple[tuple[type[KubeObject], str], ...] = (
    (storage.PersistentVolumeClaim, "v1"),
    (storage.CSIStorageCapacity, "storage.k8s.io/v1"),
    (workloads.Service, "v1"),
    (workloads.ReplicationController, "v1"),
    (workloads.ReplicaSet, "apps/v1"),
    (workloads.StatefulSet, "apps/v1"),
    (workloads.PodDisruptionBudget, "policy/v1"),
    (workloads.Lease, "coordination.k8s.io/v1"),
    (devices.ResourceClaim, "resource.k8s.io/v1"),
    (devices.ResourceClaimTemplate, "resource.k8s.io/v1"),
)
for _record, _api_version in _CLUSTER_WIDE:
    register_kind(_record, _api_version)
for _record, _api_version in _NAMESPACED:
    register_kind(_record, _api_version, namespaced=True)

POD = register_kind(Pod, "v1", namespaced=True)
