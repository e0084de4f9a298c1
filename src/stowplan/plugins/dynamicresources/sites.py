"""Sites: what of all published devices one node can reach. Made once per node, until a slice changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.objects import Labels, Node
from stowplan.objects.devices import ResourceSlice
from stowplan.plugins.dynamicresources.pools import Pool, PoolDevice, Slice, build_pool
from stowplan.plugins.dynamicresources.state import PoolID


@dataclass(slots=True)
class Candidate:
    """A device that may be tried for a node. `here` is false for one that only other nodes can use."""

    device: PoolDevice
    pool: Pool
    here: bool


@dataclass
class Site:
    """The pools of a node in the order in which they are tried, and the devices of the usable ones."""

    labels: Labels
    pools: list[tuple[Pool, list[Candidate]]] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    """Those of all pools, one after the other."""

    @property
    def flawed(self) -> bool:
        """Whether any pool is invalid."""
        return any(pool.invalid for pool, _ in self.pools)


class Sites:
    """All slices, and the site of every node that was asked for."""

    def __init__(self) -> None:
        self.version = 0
        self._local: dict[str, dict[str, Slice]] = {}
        self._shared: dict[str, Slice] = {}
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._with_counters: set[PoolID] = set()
        self._sites: dict[str, Site] = {}
        self._seen_by: dict[PoolID, set[str]] = {}
        self._flawed: dict[PoolID, Pool] = {}

    # Slices come and go

    def change(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """A slice was added, replaced or removed."""
        for record in (before, after):
            if record is not None:
                self._forget_sites(record)
        if before is not None:
            self._take_out(before)
        if after is not None:
            self._put_in(Slice(after))
        for pool_id in {_pool_of(record) for record in (before, after) if record is not None}:
            self._look_for_flaw(pool_id)
        self.version += 1

    def _forget_sites(self, record: ResourceSlice) -> None:
        if not record.spec.node_name and not record.spec.shared_counters:
            self._sites.clear()
        self._sites.pop(record.spec.node_name, None)
        for name in self._seen_by.pop(_pool_of(record), ()):
            self._sites.pop(name, None)

    def _look_for_flaw(self, pool_id: PoolID) -> None:
        """Pools with counters concern every node, as upstream sees it: one that is incomplete or invalid
        keeps requests for all devices from being granted anywhere. A sound one offers nothing."""
        flaw = None
        if pool_id in self._with_counters:
            slices = self._pools[pool_id].values()
            flaw = build_pool(pool_id, filter(_has_counters, slices), slices)
        known = self._flawed.pop(pool_id, None)
        if flaw is not None and not flaw.usable:
            self._flawed[pool_id] = flaw
        if known is not None or pool_id in self._flawed:
            self._sites.clear()

    def _put_in(self, new: Slice) -> None:
        self._pools.setdefault(new.pool_id, {})[new.name] = new
        if _only_on_its_node(new.record):
            self._local.setdefault(new.record.spec.node_name, {})[new.name] = new
        elif new.record.spec.shared_counters:
            self._with_counters.add(new.pool_id)
        else:
            self._shared[new.name] = new

    def _take_out(self, record: ResourceSlice) -> None:
        pool_id = _pool_of(record)
        pool = self._pools.get(pool_id, {})
        pool.pop(record.name, None)
        if not any(_has_counters(one) for one in pool.values()):
            self._with_counters.discard(pool_id)
        if not pool:
            self._pools.pop(pool_id, None)
        self._shared.pop(record.name, None)
        local = self._local.get(record.spec.node_name, {})
        local.pop(record.name, None)
        if not local:
            self._local.pop(record.spec.node_name, None)

    # What a node can reach

    def nodes_that_see(self, pool_id: PoolID) -> set[str]:
        """The nodes that have slices of this pool, as far as their sites were made."""
        return self._seen_by.get(pool_id, set())

    def known(self, node_name: str) -> Site | None:
        """The site of a node, unless it has to be made again."""
        return self._sites.get(node_name)

    def site(self, node: Node) -> Site:
        """What the node can reach; ReachError when a node selector makes no sense."""
        known = self._sites.get(node.name)
        if known is not None and (known.labels is node.labels or not self._shared):
            return known
        made = self._sites[node.name] = self._make(node)
        return made

    def _make(self, node: Node) -> Site:
        relevant: dict[PoolID, list[Slice]] = {}
        for owner in self._local.get(node.name, {}).values():
            relevant.setdefault(owner.pool_id, []).append(owner)
        for owner in self._shared.values():
            if owner.relevant(node):
                relevant.setdefault(owner.pool_id, []).append(owner)
        for pool_id in relevant.keys() & self._with_counters:
            relevant[pool_id] += filter(_has_counters, self._pools[pool_id].values())

        pools = [pool for pool_id, pool in self._flawed.items() if pool_id not in relevant]
        for pool_id, slices in relevant.items():
            self._seen_by.setdefault(pool_id, set()).add(node.name)
            pool = build_pool(pool_id, slices, self._pools[pool_id].values())
            if pool is not None:
                pools.append(pool)
        pools.sort(key=lambda pool: (pool.waits_for_conditions, pool.id))
        groups = [(pool, _candidates(pool, node)) for pool in pools]
        return Site(node.labels, groups, [candidate for _, some in groups for candidate in some])


def _candidates(pool: Pool, node: Node) -> list[Candidate]:
    return [
        Candidate(device, pool, owner.here(device, node)) for owner in pool.slices for device in owner.devices
    ]


def _pool_of(record: ResourceSlice) -> PoolID:
    return record.spec.driver, record.spec.pool.name


def _has_counters(one: Slice) -> bool:
    return bool(one.record.spec.shared_counters)


def _only_on_its_node(record: ResourceSlice) -> bool:
    return bool(record.spec.node_name) and not record.spec.shared_counters
