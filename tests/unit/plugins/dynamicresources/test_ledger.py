from __future__ import annotations

import random
from typing import Any

import msgspec

from stowplan.cluster import Cluster
from stowplan.objects import OwnerReference, ResourceClaim
from stowplan.objects.devices import ResourceClaimStatus
from stowplan.plugins.dynamicresources.cycle import allocated
from stowplan.plugins.dynamicresources.ledger import Ledger, ledger_of
from tests.unit.plugins.dynamicresources.world import (
    DRIVER,
    allocation,
    device,
    make_claim,
    make_cluster,
    make_slice,
)


def granted(claim: ResourceClaim, *devices: str) -> ResourceClaim:
    """The claim with these devices."""
    result = make_claim(allocation=allocation(*devices)).status.allocation
    assert result is not None
    return allocated(claim, result)


def version(claim: ResourceClaim, number: int) -> ResourceClaim:
    return msgspec.structs.replace(claim, resource_version=str(number))


def in_use(ledger: Ledger) -> list[str]:
    ledger.refresh()
    return sorted(name for _, _, name in ledger.state.devices)


def ledger_for(*objects: object) -> tuple[Cluster, Ledger]:
    cluster = make_cluster(*objects)
    ledger = ledger_of(cluster)
    ledger.refresh()
    return cluster, ledger


def test_there_is_one_ledger_per_cluster() -> None:
    cluster = make_cluster()
    assert ledger_of(cluster) is ledger_of(cluster)
    assert ledger_of(cluster) is not ledger_of(make_cluster())


def test_devices_of_written_claims_are_in_use_until_they_are_given_back() -> None:
    claim = make_claim()
    cluster, ledger = ledger_for(granted(claim, "a", "b"))
    assert in_use(ledger) == ["a", "b"]
    cluster.add(claim)
    assert in_use(ledger) == []
    cluster.add(granted(claim, "c"))
    assert in_use(ledger) == ["c"]
    cluster.remove(claim)
    assert in_use(ledger) == []


def test_devices_that_administrators_look_at_are_not_in_use() -> None:
    _, ledger = ledger_for(make_claim(allocation=allocation("a", adminAccess=True)))
    assert in_use(ledger) == []


def test_what_is_decided_is_in_use_before_it_is_written() -> None:
    claim = make_claim()
    cluster, ledger = ledger_for(claim)
    ledger.signal(granted(claim, "a"))
    assert in_use(ledger) == ["a"]
    assert ledger.pending(claim) is not None
    cluster.add(granted(claim, "a"))
    assert ledger.settle(claim)
    assert in_use(ledger) == ["a"]
    assert ledger.pending(claim) is None


def test_a_decision_that_comes_to_nothing_leaves_no_trace() -> None:
    claim = make_claim()
    _, ledger = ledger_for(claim)
    ledger.signal(granted(claim, "a"))
    assert ledger.settle(claim)
    assert in_use(ledger) == []
    assert not ledger.settle(claim)


def test_a_decision_ends_with_the_last_pod_that_shares_it_or_by_force() -> None:
    claim = make_claim()
    _, ledger = ledger_for(claim)
    for force in (False, True):
        ledger.signal(granted(claim, "a"))
        ledger.signal(granted(claim, "a"))
        assert ledger.settle(claim, force=force) is force
        if not force:
            assert in_use(ledger) == ["a"]
            assert ledger.settle(claim)
        assert in_use(ledger) == []


def test_what_was_written_counts_until_a_later_version_is_heard_of() -> None:
    claim = version(make_claim(), 1)
    cluster, ledger = ledger_for(claim)
    written = version(granted(claim, "a"), 3)
    ledger.assume(written)
    assert ledger.claim(claim.key) is written
    cluster.add(version(claim, 2))
    assert in_use(ledger) == ["a"]
    cluster.add(version(claim, 4))
    assert in_use(ledger) == []
    assert ledger.claim(claim.key) is not written


def test_a_claim_that_came_later_under_the_same_name_is_another_one() -> None:
    claim = make_claim()
    cluster, ledger = ledger_for(claim)
    ledger.assume(version(granted(claim, "a"), 9))
    later = make_claim("claim", uid="later")
    cluster.add(later)
    assert in_use(ledger) == []
    assert ledger.claim(claim.key) is later


def test_slices_are_taken_in_as_they_come_and_go() -> None:
    cluster, ledger = ledger_for(make_slice("s", [device("a")]))
    node = cluster.nodes.objects[0]

    def names() -> list[str]:
        ledger.refresh()
        return [one.device.id[2] for one in ledger.sites.site(node).candidates]

    assert names() == ["a"]
    cluster.add(make_slice("s", [device("b")]))
    assert names() == ["b"]
    cluster.remove(make_slice("s"))
    assert names() == []


def test_the_ledger_after_any_changes_equals_a_new_one() -> None:
    rng = random.Random(3)
    cluster, ledger = ledger_for()
    for _ in range(600):
        claim = make_claim(f"c{rng.randrange(5)}")
        claim = msgspec.structs.replace(claim, uid=f"{claim.name}-{rng.randrange(2)}")
        if rng.random() < 0.2:
            cluster.remove(claim)
        else:
            devices = [f"{claim.uid}-{one}" for one in rng.sample("abcd", 2)]
            cluster.add(granted(claim, *devices) if rng.random() < 0.6 else claim)
        if rng.random() < 0.5:
            ledger.refresh()
    ledger.refresh()
    fresh = Ledger(cluster)
    fresh.refresh()
    assert ledger.state.devices == fresh.state.devices


def test_shares_of_a_device_are_counted_together() -> None:
    def share(name: str, amount: str) -> ResourceClaim:
        made = allocation("a", shareID=name, consumedCapacity={"memory": amount})
        return make_claim(name, allocation=made)

    cluster, ledger = ledger_for(share("x", "1Gi"), share("y", "2Gi"))
    key = (DRIVER, "pool", "a")
    assert ledger.state.capacity[key] == {"memory": 3 * 1024**3 * 10**9}
    assert not ledger.state.devices
    cluster.remove(share("x", "1Gi"))
    ledger.refresh()
    assert ledger.state.capacity[key] == {"memory": 2 * 1024**3 * 10**9}
    assert ledger.state.is_allocated(key)
    cluster.add(msgspec.structs.replace(share("y", "2Gi"), status=ResourceClaimStatus()))
    ledger.refresh()
    assert not ledger.state.is_allocated(key)


MARK = "example.com/made-for-its-pod"


def made_for(uid: str, name: str = "made", **fields: Any) -> ResourceClaim:
    owner = OwnerReference(kind="Pod", name="p", uid=uid, controller=True)
    fields = {"annotations": {MARK: "true"}, **fields}
    return msgspec.structs.replace(make_claim(name), owners=(owner,), **fields)


def test_the_claim_that_was_made_for_a_pod_is_found_as_long_as_it_is_there() -> None:
    made = made_for("u-p")
    cluster, ledger = ledger_for(made, made_for("u-q", "other"), made_for("u-r", "plain", annotations={}))

    def found(uid: str, namespace: str = "default") -> str:
        ledger.refresh()
        claim = ledger.of_pod(namespace, uid, MARK)
        return "" if claim is None else claim.name

    assert [found(uid) for uid in ("u-p", "u-q", "u-r", "u-s")] == ["made", "other", "", ""]
    assert found("u-p", "elsewhere") == ""
    cluster.add(made_for("u-s"))
    assert [found("u-p"), found("u-s")] == ["", "made"]
    for claim in (made_for("u-s"), made_for("u-q", "other"), made_for("u-r", "plain")):
        cluster.remove(claim)
    assert [found("u-s"), found("u-q")] == ["", ""]
    assert not ledger._made_for and not ledger._owners


def test_finding_it_looks_at_no_claim_of_another_pod() -> None:
    _, ledger = ledger_for(*(made_for(f"u-{number}", f"c{number}") for number in range(50)))
    looked_at = list[str]()
    claim = ledger.claim

    def look(key: str) -> ResourceClaim | None:
        looked_at.append(key)
        return claim(key)

    ledger.claim = look  # type: ignore[method-assign]
    assert ledger.of_pod("default", "u-49", MARK) is not None
    assert looked_at == ["default/c49"]
