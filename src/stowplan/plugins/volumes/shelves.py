"""The volumes that wait for a claim, sorted so that a claim finds those that fit without looking at all.

Volumes of one storage class, size, mode and so on stand together: a claim is held against the kind once,
however many volumes of the kind there are. What a claim has been promised stands apart, by claim.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias

from stowplan.objects import Labels, PersistentVolume, PersistentVolumeClaim, intern_labels
from stowplan.objects.quantity import value
from stowplan.objects.selectors import Selector
from stowplan.plugins.volumes.assumed import Assumed
from stowplan.plugins.volumes.claims import volume_class
from stowplan.plugins.volumes.reach import Reach, volume_reach


class Kind(NamedTuple):
    """All of a volume that a claim may ask for, except where it can be reached."""

    size: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    labels: Labels


class Demand(NamedTuple):
    """What a claim asks of a volume."""

    size: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector | None

    def met_by(self, kind: Kind) -> bool:
        return (
            self.met_when_promised(kind)
            and self.access_modes <= kind.access_modes
            and (self.selector is None or self.selector.matches(kind.labels))
        )

    def met_when_promised(self, kind: Kind) -> bool:
        """A volume that names its claim need not offer the access modes and labels that are asked for."""
        return (
            kind.size >= self.size
            and kind.mode == self.mode
            and kind.attributes_class == self.attributes_class
        )


def kind_of(volume: PersistentVolume) -> Kind:
    spec = volume.spec
    return Kind(
        size=value(spec.capacity.get("storage", 0)),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        labels=intern_labels(volume.labels),
    )


def reach_of(volume: PersistentVolume) -> Reach:
    affinity = volume.spec.node_affinity
    return volume_reach(affinity.required if affinity is not None else None)


def is_promised_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume names this claim: one of the same name that is another by its uid does not count."""
    promised = volume.spec.claim_ref
    if promised is None or (promised.namespace, promised.name) != (claim.namespace, claim.name):
        return False
    return promised.uid in ("", claim.uid)


Volumes: TypeAlias = dict[str, PersistentVolume]
"""Volumes by name."""


class _Slot(NamedTuple):
    """Where a volume stands: among those under a key of some shelf."""

    shelf: dict[Any, Volumes]
    key: Hashable

    def put(self, volume: PersistentVolume) -> None:
        self.shelf.setdefault(self.key, {})[volume.name] = volume

    def take(self, name: str) -> None:
        volumes = self.shelf[self.key]
        del volumes[name]
        if not volumes:
            del self.shelf[self.key]


class FreeVolumes:
    """The free volumes of one kind, by where they can be reached."""

    def __init__(self) -> None:
        self.by_label: dict[str, dict[str, Volumes]] = {}
        """Those that can be reached from nodes with one of some values of a label: by label and value."""
        self.by_reach: dict[Reach, Volumes] = {}
        """All others."""

    @property
    def empty(self) -> bool:
        return not self.by_reach and not any(self.by_label.values())

    def slots(self, volume: PersistentVolume) -> list[_Slot]:
        reach = reach_of(volume)
        if reach.key is None:
            return [_Slot(self.by_reach, reach)]
        by_value = self.by_label.setdefault(reach.key, {})
        return [_Slot(by_value, value) for value in reach.values]


class Shelf:
    """The volumes of one storage class."""

    def __init__(self) -> None:
        self._free: dict[Kind, FreeVolumes] = {}
        self._promised: dict[str, Volumes] = {}

    def slots(self, volume: PersistentVolume) -> list[_Slot]:
        """Where a volume can be found; nowhere when no claim could get it. Volumes that are not Available
        yet, or not any more, will change before long: taking them would only lead to conflicts."""
        if volume.deleted is not None:
            return []
        promised = volume.spec.claim_ref
        if promised is not None:
            return [_Slot(self._promised, f"{promised.namespace}/{promised.name}")]
        if volume.status.phase != "Available":
            return []
        return self._free.setdefault(kind_of(volume), FreeVolumes()).slots(volume)

    def promised_to(self, claim: PersistentVolumeClaim, demand: Demand) -> list[PersistentVolume]:
        """The volumes that name the claim and are good enough for it, by name: which comes first must not
        depend on the order in which they were promised."""
        promised = sorted(self._promised.get(claim.key, {}).items())
        return [
            volume
            for _, volume in promised
            if is_promised_to(volume, claim) and demand.met_when_promised(kind_of(volume))
        ]

    def free_for(self, demand: Demand) -> list[FreeVolumes]:
        """The free volumes that will do, the smallest first."""
        for kind in [kind for kind, free in self._free.items() if free.empty]:
            del self._free[kind]
        kinds = sorted(filter(demand.met_by, self._free), key=lambda kind: kind.size)
        return [self._free[kind] for kind in kinds]


class Shelves:
    """All volumes by storage class, kept up to date with the cluster and with what is assumed."""

    def __init__(self, volumes: Assumed[PersistentVolume]) -> None:
        self._volumes = volumes
        self._by_class: dict[str, Shelf] = {}
        self._slots: dict[str, list[_Slot]] = {}
        self._version = -1

    def of_class(self, class_name: str) -> Shelf:
        self._refresh()
        return self._by_class.get(class_name) or Shelf()

    def _refresh(self) -> None:
        table, touched = self._volumes.table, self._volumes.touched
        if table.version == self._version and not touched:
            return
        changed = table.changed_since(self._version) if self._version >= 0 else None
        if changed is None:
            self._by_class.clear()
            self._slots.clear()
            changed = {volume.name for volume in table}
        for name in changed | touched:
            self._replace(name)
        touched.clear()
        self._version = table.version

    def _replace(self, name: str) -> None:
        for slot in self._slots.pop(name, ()):
            slot.take(name)
        volume = self._volumes.get(name)
        if volume is not None:
            slots = self._by_class.setdefault(volume_class(volume), Shelf()).slots(volume)
            for slot in slots:
                slot.put(volume)
            if slots:
                self._slots[name] = slots
