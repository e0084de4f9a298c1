"""What the run makes of what it sees: the journal, the order of faults, the pods, what processes say."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.soak.faults import FAULTS
from tests.soak.leasebook import LeaseBook
from tests.soak.ledger import Ledger, read_pod
from tests.soak.load import NODE_CPU, PODS_PER_NODE, pod
from tests.soak.proxy import Exchange, Request, Treatment
from tests.soak.replicas import Life, Replica
from tests.soak.run import Journal
from tests.soak.soak import COMPARED, Happened, Report, Settings, judge_dump, order

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def exchange(method: str, path: str, body: object, *, at: float = 0.0, status: int | None = None) -> Exchange:
    request = Request(method, path, "", json.dumps(body).encode(), at)
    return Exchange(request, Treatment.PASS, status)


def lease(holder: str, *, at: float, status: int) -> Exchange:
    return exchange(
        "PUT", f"{LEASES}/kube-scheduler", {"spec": {"holderIdentity": holder}}, at=at, status=status
    )


def binding(*, at: float, status: int | None = None) -> Exchange:
    body = {"metadata": {"uid": "u", "name": "web"}, "target": {"name": "n"}}
    return exchange("POST", "/api/v1/namespaces/default/pods/web/binding", body, at=at, status=status)


@pytest.fixture
def journal() -> Journal:
    return Journal(LeaseBook(6.0), Ledger())


def test_leases_and_bindings_reach_the_books(journal: Journal) -> None:
    journal.answered("a", lease("host_1", at=0.0, status=200))
    journal.arrived("a", binding(at=1.0))
    journal.answered("a", binding(at=1.0, status=201))
    assert not journal.book.violations
    journal.answered("b", binding(at=1.0, status=201))
    assert journal.ledger.violations == ["web was bound twice: to n and to n"]
    assert journal.answers == {"binding: 201": 2}


def test_a_lease_counts_only_when_the_server_took_it(journal: Journal) -> None:
    journal.answered("a", lease("host_1", at=0.0, status=409))
    journal.arrived("a", binding(at=1.0))
    assert journal.book.violations == ["a bound web without ever having had the lease"]


def test_an_empty_holder_gives_the_lease_back(journal: Journal) -> None:
    journal.answered("a", lease("host_1", at=0.0, status=200))
    journal.answered("a", lease("", at=1.0, status=200))
    journal.arrived("a", binding(at=2.0))
    assert len(journal.book.violations) == 1


@pytest.mark.parametrize("count", [9, len(FAULTS), 36])
def test_every_fault_happens_before_one_happens_twice(count: int) -> None:
    chosen = order(count, random.Random(1))
    assert len(chosen) == count
    assert len(set(chosen)) == min(count, len(FAULTS))


def test_pods_of_the_load_fill_nodes_as_they_should() -> None:
    chance = random.Random(1)
    made = [read_pod({**pod(i, chance), "metadata": {"uid": "", "name": ""}}) for i in range(4000)]
    placeable = [each.asks.cpu for each in made if each.asks.cpu <= 1000 * NODE_CPU and not each.selector]
    assert sum(placeable) / len(placeable) == pytest.approx(1000 * NODE_CPU / PODS_PER_NODE, rel=0.05)
    assert 10 < len(made) - len(placeable) < 40


def replica_that_said(text: str, folder: Path, *lives: Life) -> Replica:
    replica = Replica.__new__(Replica)
    replica.name, replica.log, replica.lives = "a", folder / "a.log", list(lives)
    replica.log.write_text(text)
    return replica


def test_a_traceback_is_trouble_and_losing_the_lease_is_not(tmp_path: Path) -> None:
    lost = Life("a", 0.0, 1.0, code=1)
    assert replica_that_said("leader election lost\n", tmp_path, lost).troubles() == []
    assert len(replica_that_said("Traceback (most recent call last):\n", tmp_path, lost).troubles()) == 1


def test_an_end_by_a_signal_that_nobody_sent_is_trouble(tmp_path: Path) -> None:
    killed, crashed = Life("a", 0.0, 1.0, code=-9, wanted=True), Life("a", 0.0, 1.0, code=-11)
    assert replica_that_said("", tmp_path, killed, crashed).troubles() == ["a ended with code -11"]


def test_a_run_is_good_only_with_all_faults_and_nothing_wrong() -> None:
    good = Happened(1, "leader killed", 1.0, "a", 2.0, 3.0, [])
    late = Happened(1, "leader killed", 1.0, "a", 2.0, None, ["5 pods are pending"])
    settings = Settings(faults=1)
    assert Report(settings, [good]).good
    assert not Report(settings, []).good
    assert not Report(settings, [late]).good
    assert not Report(settings, [good], ["memory grew"]).good
    assert json.loads(Report(settings, [good]).encoded())["good"] is True
    assert "NOT SETTLED" in late.line() and "VIOLATION: 5 pods" in late.line()


@pytest.mark.parametrize(
    ("said", "problems"),
    [
        (f'tasks=25\nassumed=0\ninFlight=0\n"{COMPARED[0]}"', 0),
        (f'tasks=900\nassumed=0\ninFlight=0\n"{COMPARED[0]}"', 1),
        (f'tasks=25\nassumed=3\ninFlight=1\n"{COMPARED[0]}"', 2),
        (f'tasks=25\nassumed=0\ninFlight=0\n"{COMPARED[1]}" missedPods=["a"]', 1),
        ("", 4),
    ],
)
def test_a_scheduler_at_rest_has_nothing_under_way_and_knows_the_truth(said: str, problems: int) -> None:
    assert len(judge_dump(said)[1]) == problems
