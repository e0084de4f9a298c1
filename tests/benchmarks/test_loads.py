"""The loads are what they say, and the measurements measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import core, filling, ours, upstream
from benchmarks.loads import KINDS, Load, of_kind, preemption, unplaceable
from stowplan.objects import Node, Pod, decode_object


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_made_of_nodes_and_pending_pods(kind: str) -> None:
    load = of_kind(kind, 3, 10)
    nodes = [decode_object(ours.encoded(obj)) for obj in load.there()]
    pods = [decode_object(ours.encoded(obj)) for obj in load.pods()]
    assert [type(node) for node in nodes] == [Node] * 3
    assert len({pod.key for pod in pods if isinstance(pod, Pod) and not pod.node_name}) == 10


@pytest.mark.parametrize("kind", core.KINDS)
def test_pods_of_every_measured_kind_are_placed(kind: str) -> None:
    run = ours.run(of_kind(kind, 20, 40))
    assert (run.placed, run.failed) == (40, 0)
    assert run.rate > 0


def test_pods_that_fit_nowhere_do_not_keep_others_from_being_placed() -> None:
    run = ours.run(unplaceable(10, 40, every=4))
    assert (run.placed, run.failed, run.preempted) == (10, 30, 0)


@pytest.mark.parametrize(("lesser", "cpu", "victims"), [(40, 800, 5), (4, 4000, 1)])
def test_every_preemptor_needs_victims(lesser: int, cpu: int, victims: int) -> None:
    run = ours.run(preemption(10, lesser, cpu, preemptors=20))
    assert (run.placed, run.preempted, run.victims) == (20, 20, 20 * victims)


def test_a_full_cluster_is_measured() -> None:
    full = filling.measure(10, 50)
    assert full["pods"] == 50
    assert full["resident"] >= full["before"] > 0


def test_the_table_and_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "find_or_build", lambda: Path("corebench"))
    monkeypatch.setattr(upstream, "run", _half_as_fast)
    target = tmp_path / "figures.json"
    arguments = ["--kinds", "basic", "--nodes", "10", "--pods", "20", "--runs", "1", "--json", str(target)]
    assert core.main(arguments) == 0
    (row,) = json.loads(target.read_text())["decisionsPerSecond"]
    assert (row["nodes"], row["load"], row["placed"], row["upstream"]) == (10, "basic", 20, 10.0)
    assert "basic" in capsys.readouterr().out


def _half_as_fast(program: Path, load: Load, percentage: int = 0) -> ours.Run:
    return ours.Run(pods=20, placed=20, seconds=2.0)


def test_upstream_is_left_out_where_it_cannot_be_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda program: None)
    assert upstream.find_or_build() is None
    assert "no Go" in capsys.readouterr().err
