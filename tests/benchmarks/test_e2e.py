"""The end-to-end benchmark: what it counts, and what it says about it. Servers are real elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import e2e
from benchmarks.e2e_loads import Batch, Load, Ready, Steady, filling, loads
from benchmarks.e2e_measure import Figures
from benchmarks.e2e_server import JSON, PROTOBUF, BindingMeter, Server
from benchmarks.e2e_sides import write_config
from benchmarks.e2e_table import header, lines
from benchmarks.ours import encoded
from stowplan.config.load import convert_configuration
from stowplan.objects import Pod, decode_object
from tests.control_plane import binaries


def meter(accept: bytes) -> BindingMeter:
    return BindingMeter(Server.__new__(Server), accept)


def line(kind: str, name: str) -> bytes:
    return b'{"type":"%b","object":{"kind":"Pod","metadata":{"name":"%b"}}}\n' % (
        kind.encode(),
        name.encode(),
    )


def frame(kind: str, name: str) -> bytes:
    event = b"\x0a" + bytes([len(kind)]) + kind.encode() + b"\x12\x20k8s\x00..." + name.encode() + b"\x12..."
    return len(event).to_bytes(4, "big") + event


@pytest.mark.parametrize("piece", [1, 7, 64, 4096])
def test_bindings_are_seen_however_the_lines_come_in_pieces(piece: int) -> None:
    data = line("ADDED", "basic-000001") + line("MODIFIED", "basic-000002") + line("ADDED", "basic-000003")
    seen = meter(JSON)
    for start in range(0, len(data), piece):
        seen._take_lines(data[start : start + piece])
    assert list(seen.bound) == ["basic-000001", "basic-000003"]


@pytest.mark.parametrize("piece", [1, 7, 64, 4096])
def test_bindings_are_seen_however_the_frames_come_in_pieces(piece: int) -> None:
    data = frame("ADDED", "mixed-000001") + frame("DELETED", "mixed-000002") + frame("ADDED", "mixed-000003")
    seen = meter(PROTOBUF)
    for start in range(0, len(data), piece):
        seen._take_frames(data[start : start + piece])
    assert list(seen.bound) == ["mixed-000001", "mixed-000003"]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", list(loads(quick=True)))
def test_loads_hold_what_they_say(name: str, quick: bool) -> None:
    load = loads(quick=quick)[name]
    assert load.name == name
    if isinstance(load, Batch):
        pods = list(load.pods())
        assert len({each["metadata"]["name"] for each in pods}) == len(pods) >= load.bindings
        assert not any("nodeName" in each["spec"] for each in pods)
        assert all("nodeName" in each["spec"] for each in load.placed())


def test_the_cluster_to_get_ready_for_is_full_of_placed_pods() -> None:
    pods = [decode_object(encoded(each)) for each in filling(3, 10)]
    assert [pod.node_name for pod in pods if isinstance(pod, Pod)] == [f"node-{i % 3:05d}" for i in range(10)]


def test_both_sides_get_a_valid_configuration(tmp_path: Path) -> None:
    written = write_config(tmp_path / "kubeconfig", tmp_path / "config.yaml")
    config, warnings = convert_configuration(written.read_bytes(), str(written))
    assert not warnings
    assert config.client_connection.qps == 5000
    assert not config.leader_election.leader_elect


ROWS: list[tuple[Load, dict[str, Figures], list[str]]] = [
    (
        Batch("basic", 1000, lambda: iter(()), 500),
        {
            "api": Figures(500, 500, rate=1000.0),
            "upstream": Figures(500, 500, rate=400.0, cpu_per_pod=1.6, resident=200.0),
            "stowplan": Figures(499, 500, rate=900.0, cpu_per_pod=0.4, resident=100.0, note="gave up"),
        },
        [
            "2.25 × upstream's rate",
            "CPU 0.25 ×",
            "memory 0.50 ×",
            "90 % of the API's",
            "499 of 500",
            "gave up",
        ],
    ),
    (
        Batch("toobig", 1000, lambda: iter(()), 500, hard=True),
        {"upstream": Figures(1, 1, elapsed=50.0), "stowplan": Figures(1, 1, elapsed=5.0)},
        ["10.00 × as fast as upstream"],
    ),
    (
        Steady("steady", 1000, 200, 60),
        {"upstream": Figures(1, 1, latency_p99=20.0), "stowplan": Figures(1, 1, latency_p99=10.0)},
        ["p99 0.50 × upstream's"],
    ),
    (
        Ready("ready", 5000, 50_000),
        {"upstream": Figures(1, 1, elapsed=6.0), "stowplan": Figures(1, 1, elapsed=3.0)},
        ["2.00 × as fast as upstream"],
    ),
]


@pytest.mark.parametrize(("load", "row", "said"), ROWS, ids=[row[0].name for row in ROWS])
def test_ratios_are_said(load: Load, row: dict[str, Figures], said: list[str]) -> None:
    text = "\n".join([header(), *lines(load, row)])
    for each in said:
        assert each in text


def test_the_run_in_the_middle_counts() -> None:
    runs = [Figures(rate=300.0, cpu=3.0), Figures(rate=100.0, cpu=1.0), Figures(rate=200.0, cpu=2.0)]
    assert e2e._middle(runs).cpu == 2.0
    assert e2e._middle(runs[:1]).cpu == 3.0


def test_without_binaries_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(binaries, "missing", lambda: "make control-plane builds them")
    assert e2e.main([]) == 2
    assert "make control-plane" in capsys.readouterr().err
