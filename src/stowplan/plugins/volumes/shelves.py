"""The volumes that wait for a claim, sorted so that a claim finds those that fit without looking at all.

Volumes of one storage class, size, mode and so on stand together: a claim is held against the kind once,
however many volumes of the kind there are. What a claim has been promised stands apart, by claim.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

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


_Volumes = dict[str, PersistentVolume]


class _Place(NamedTuple):
    """Where a volume stands: among those under a key."""

    shelf: dict[Any, _Volumes]
    key: Hashable

    def put(self, volume: PersistentVolume) -> None:
        self.shelf.setdefault(self.key, {})[volume.name] = volume

    def take(self, name: str) -> None:
        volumes = self.shelf[self.key]
        del volumes[name]
        if not volumes:
            del self.shelf[self.key]


class Shelf:
    """The volumes of one storage class."""

    def __init__(self) -> None:
        self._free: dict[Kind, dict[Reach, _Volumes]] = {}
        self._promised: dict[str, _Volumes] = {}

    def place_for(self, volume: PersistentVolume) -> _Place | None:
        """Where a volume can be found; None when no claim could get it. Volumes that are not Available yet,
        or not any more, will change before long: taking them would only lead to conflicts."""
        if volume.deleted is not None:
            return None
        promised = volume.spec.claim_ref
        if promised is not None:
            return _Place(self._promised, f"{promised.namespace}/{promised.name}")
        if volume.status.phase == "Available":
            return _Place(self._free.setdefault(kind_of(volume), {}), reach_of(volume))
        return None

    def promised_to(self, claim: PersistentVolumeClaim, demand: Demand) -> list[PersistentVolume]:
        """The volumes that name the claim and are good enough for it."""
        return [
            volume
            for volume in self._promised.get(claim.key, {}).values()
            if is_promised_to(volume, claim) and demand.met_when_promised(kind_of(volume))
        ]

    def free_for(self, demand: Demand) -> Iterator[tuple[Reach, _Volumes]]:
        """The free volumes that will do, the smallest first, by where they can be reached."""
        for kind in [kind for kind, by_reach in self._free.items() if not by_reach]:
            del self._free[kind]
        for kind in sorted(filter(demand.met_by, self._free), key=lambda kind: kind.size):
            yield from self._free[kind].items()


class Shelves:
    """All volumes by storage class, kept up to date with the cluster and with what is assumed."""

    def __init__(self, volumes: Assumed[PersistentVolume]) -> None:
        self._volumes = volumes
        self._by_class: dict[str, Shelf] = {}
        self._places: dict[str, _Place] = {}
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
            self._places.clear()
            changed = {volume.name for volume in table}
        for name in changed | touched:
            self._replace(name)
        touched.clear()
        self._version = table.version

    def _replace(self, name: str) -> None:
        before = self._places.pop(name, None)
        if before is not None:
            before.take(name)
        volume = self._volumes.get(name)
        if volume is not None:
            place = self._by_class.setdefault(volume_class(volume), Shelf()).place_for(volume)
            if place is not None:
                place.put(volume)
                self._places[name] = place
