"""Which volume each claim of a pod would get on every node, as columns of volume numbers.

A claim gets the volume that already names it, or else the smallest free one that will do; claims of one
pod cannot get the same volume. Free volumes are looked at once per claim, not once per node: nodes find
theirs by the label that says where a volume can be reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from stowplan.cluster import IntColumn, Mask, Nodes
from stowplan.objects import PersistentVolume, PersistentVolumeClaim, SelectorError, compile_selector
from stowplan.plugins.volumes.claims import VolumeError, claim_class, requested_size
from stowplan.plugins.volumes.reach import Reach
from stowplan.plugins.volumes.shelves import Demand, Shelf, Shelves, reach_of

NO_VOLUME = -1
_LAST = 2**62


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
        most = len(self._chosen) + 1
        numbers: list[int] = []
        by_label: dict[str, dict[str, list[int]]] = {}
        by_reach: dict[Reach, list[int]] = {}
        for reach, volumes in shelf.free_for(demand):
            if reach.key is None:
                lists = [by_reach.setdefault(reach, [])]
            else:
                by_value = by_label.setdefault(reach.key, {})
                lists = [by_value.setdefault(value, []) for value in reach.values]
            for volume in islice(volumes.values(), most):
                for ranks in lists:
                    if len(ranks) < most:
                        ranks.append(len(numbers))
                numbers.append(self._number(volume))
        if not numbers:
            return np.full(len(self._nodes), NO_VOLUME, np.int64)
        best: IntColumn = np.full(len(self._nodes), _LAST, np.int64)
        number_of_rank = np.array([*numbers, NO_VOLUME], np.int64)
        for ranked in self._rank_columns(by_label, by_reach):
            ranked[~self._not_chosen(number_of_rank[np.minimum(ranked, len(numbers))])] = _LAST
            np.minimum(best, ranked, out=best)
        return number_of_rank[np.minimum(best, len(numbers))]

    def _rank_columns(
        self, by_label: dict[str, dict[str, list[int]]], by_reach: dict[Reach, list[int]]
    ) -> Iterator[IntColumn]:
        """Columns that together hold every rank at the nodes from which its volume can be reached."""
        for key, by_value in by_label.items():
            ids = self._nodes.label_ids(key)
            column = self._nodes.table.label(key)
            for position in range(max(map(len, by_value.values()))):
                # The last entry is for nodes without the label, whose id is -1.
                rank_of_value = np.full(len(column.values) + 1, _LAST, np.int64)
                for value, ranks in by_value.items():
                    known = column.id_of(value)
                    if known >= 0 and position < len(ranks):
                        rank_of_value[known] = ranks[position]
                yield rank_of_value[ids]
        for reach, ranks in by_reach.items():
            reached = reach.mask(self._nodes)
            for rank in ranks:
                yield np.where(reached, rank, _LAST)
