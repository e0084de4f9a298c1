"""Which volume each claim of a pod would get on every node, as columns of volume numbers.

A claim gets the volume that already names it, or else the smallest free one that will do; claims of one
pod cannot get the same volume. Free volumes are looked at once per claim, not once per node: nodes find
theirs by the label that says where a volume can be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from stowplan.cluster import IntColumn, Mask, Nodes
from stowplan.objects import PersistentVolume, PersistentVolumeClaim, SelectorError, compile_selector
from stowplan.plugins.volumes.claims import VolumeError, claim_class, requested_size
from stowplan.plugins.volumes.reach import Reach
from stowplan.plugins.volumes.shelves import Demand, FreeVolumes, Shelf, Shelves, Volumes, reach_of

NO_VOLUME = -1


def demand_of(claim: PersistentVolumeClaim) -> Demand:
    """What a claim asks of a volume."""
    spec = claim.spec
    selector = None
    if spec.selector is not None:
        try:
            selector = compile_selector(spec.selector)
        except SelectorError as problem:
            raise VolumeError(
                f"error creating internal label selector for claim: {claim.key}: {problem}"
            ) from None
    return Demand(
        size=requested_size(claim) or 0,
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        selector=selector,
    )


class Matching:
    """Chooses volumes for the claims of one pod, claim after claim, on the given nodes."""

    def __init__(self, shelves: Shelves, nodes: Nodes) -> None:
        self._shelves = shelves
        self._nodes = nodes
        self._volumes: list[PersistentVolume] = []
        self._numbers: dict[str, int] = {}
        self._chosen: list[IntColumn] = []

    def volume(self, number: int) -> PersistentVolume:
        return self._volumes[number]

    def choose(self, claim: PersistentVolumeClaim) -> IntColumn:
        """The number of the claim's volume on every node, NO_VOLUME where there is none."""
        demand = demand_of(claim)
        shelf = self._shelves.of_class(claim_class(claim))
        choice: IntColumn = np.full(len(self._nodes), NO_VOLUME, np.int64)
        left: Mask = np.ones(len(self._nodes), np.bool_)
        # A volume that names the claim is its only one: where it cannot be reached, no other will do.
        for volume in shelf.promised_to(claim, demand):
            number = self._number(volume)
            here = left & self._not_chosen(number)
            choice[here & reach_of(volume).mask(self._nodes)] = number
            left &= ~here
        if left.any():
            smallest = self._smallest_free(shelf, demand)
            choice[left] = smallest[left]
        self._chosen.append(choice)
        return choice

    def _number(self, volume: PersistentVolume) -> int:
        number = self._numbers.setdefault(volume.name, len(self._volumes))
        if number == len(self._volumes):
            self._volumes.append(volume)
        return number

    def _not_chosen(self, number: int | IntColumn) -> Mask:
        """The nodes on which no earlier claim of the pod gets this volume."""
        fine: Mask = np.ones(len(self._nodes), np.bool_)
        for earlier in self._chosen:
            fine &= earlier != number
        return fine

    def _smallest_free(self, shelf: Shelf, demand: Demand) -> IntColumn:
        """The smallest free volume on every node. Volumes are ranked by size; of those that can be reached
        from the same nodes the first few will do, one more than earlier claims can have taken."""
        ranking = _Ranking(self._nodes, len(self._chosen) + 1)
        for free in shelf.free_for(demand):
            ranking.add(free)
        number_of_rank = np.array([*map(self._number, ranking.volumes), NO_VOLUME], np.int64)
        none = len(ranking.volumes)
        best: IntColumn = np.full(len(self._nodes), none, np.int64)
        for ranked in ranking.columns():
            if self._chosen:
                ranked[~self._not_chosen(number_of_rank[ranked])] = none
            np.minimum(best, ranked, out=best)
        return number_of_rank[best]


class _Ranking:
    """Free volumes in the order in which they are preferred, and who can reach them."""

    def __init__(self, nodes: Nodes, most: int) -> None:
        self.volumes: list[PersistentVolume] = []
        self._nodes = nodes
        self._most = most
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._by_reach: dict[Reach, list[int]] = {}

    def add(self, free: FreeVolumes) -> None:
        """Volumes that are next in order."""
        for key, by_value in free.by_label.items():
            ranks_of = self._by_label.setdefault(key, {})
            for value, volumes in self._near(key, by_value):
                self._rank(ranks_of.setdefault(value, []), volumes)
        for reach, volumes in free.by_reach.items():
            self._rank(self._by_reach.setdefault(reach, []), volumes)

    def _near(self, key: str, by_value: Mapping[str, Volumes]) -> Iterable[tuple[str, Volumes]]:
        """The values, and their volumes, that some of the nodes may have."""
        if len(self._nodes) >= len(by_value):
            return by_value.items()
        known = self._nodes.label_values(key)
        values = {known[number] for number in self._nodes.label_ids(key).tolist() if number >= 0}
        return [(value, by_value[value]) for value in values if value in by_value]

    def _rank(self, ranks: list[int], volumes: Volumes) -> None:
        for volume in islice(volumes.values(), self._most - len(ranks)):
            ranks.append(len(self.volumes))
            self.volumes.append(volume)

    def columns(self) -> Iterator[IntColumn]:
        """Columns that together hold every rank at the nodes from which its volume can be reached, and
        elsewhere the first rank that nothing has."""
        none = len(self.volumes)
        for key, ranks_of in self._by_label.items():
            ids = self._nodes.label_ids(key)
            column = self._nodes.table.label(key)
            for position in range(max(map(len, ranks_of.values()), default=0)):
                # The last entry is for nodes without the label, whose id is -1.
                rank_of_value = np.full(len(column.values) + 1, none, np.int64)
                for value, ranks in ranks_of.items():
                    known = column.id_of(value)
                    if known >= 0 and position < len(ranks):
                        rank_of_value[known] = ranks[position]
                yield rank_of_value[ids]
        for reach, ranks in self._by_reach.items():
            reached = reach.mask(self._nodes)
            for rank in ranks:
                yield np.where(reached, rank, none)
