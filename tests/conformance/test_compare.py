"""The judge is judged: whatever is not as wanted is reported."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.__main__ import main
from conformance.cases import decode_case, family_of, own_files, read_cases
from conformance.runner import run_case

Plain = dict[str, Any]


def _cases(family: str) -> Iterator[Plain]:
    """The cases of a family as plain data."""
    path = next(path for path in own_files() if family_of(path) == family)
    with gzip.open(path) as lines:
        yield from map(msgspec.json.decode, lines)


def _case(family: str, wants: str) -> Plain:
    """The first case of a family in which something of this name is wanted of some pod."""
    return next(case for case in _cases(family) if any(_at(want, wants) for want in case["want"]))


def _at(want: Plain, path: str) -> Any:
    found: Any = want
    for step in path.split("."):
        found = found.get(step) if found else None
    return found


def _wanted(plain: Plain, path: str) -> Plain:
    """The first entry of `want` that has this, to be changed in place."""
    return next(want for want in plain["want"] if _at(want, path))


def _differences(plain: Plain) -> list[str]:
    return run_case(decode_case(msgspec.json.encode(plain))).differences


def _first(plain: Plain) -> tuple[str, Any]:
    return next(iter(plain.items()))


@pytest.mark.parametrize("path", own_files(), ids=family_of)
def test_every_case_agrees(path: Path) -> None:
    assert [line for case in read_cases(path) for line in run_case(case).differences] == []


def test_a_changed_score_is_a_difference() -> None:
    plain = _case("resources", "scores")
    node, scores = _first(_wanted(plain, "scores")["scores"])
    plugin = next(iter(scores))
    scores[plugin] += 1
    (difference,) = _differences(plain)
    assert f"scores[{node}][{plugin}]" in difference


def test_a_plugin_that_should_have_scored_is_a_difference() -> None:
    plain = _case("resources", "scores")
    _, scores = _first(_wanted(plain, "scores")["scores"])
    scores["NoSuchPlugin"] = 0
    (difference,) = _differences(plain)
    assert "NoSuchPlugin" in difference and "got nothing" in difference


def test_a_changed_reason_is_a_difference() -> None:
    plain = _case("taints", "filter")
    node, rejection = _first(_wanted(plain, "filter")["filter"])
    rejection["reasons"] = ["node(s) were painted green"]
    assert any(f"filter[{node}]" in line and "painted green" in line for line in _differences(plain))


def test_a_changed_code_is_a_difference() -> None:
    plain = _case("resources", "filter")
    _, rejection = _first(_wanted(plain, "filter")["filter"])
    rejection["code"] = "Pending"
    assert _differences(plain)


def _rejections(case: Plain) -> Iterator[Plain]:
    for want in case["want"]:
        yield from want.get("filter", {}).values()


def test_a_changed_order_of_reasons_is_a_difference() -> None:
    both = ["Insufficient cpu", "Insufficient memory"]
    case, rejection = next(
        (case, rejection)
        for case in _cases("resources")
        for rejection in _rejections(case)
        if rejection["reasons"][:2] == both
    )
    rejection["reasons"][:2] = reversed(both)
    assert _differences(case)


def test_the_order_of_extended_resources_is_open() -> None:
    """Upstream gives them in the order of a Go map."""
    case = next(
        case
        for case in _cases("resources")
        if any(sum(map(_is_extended, rejection["reasons"])) > 1 for rejection in _rejections(case))
    )
    for rejection in _rejections(case):
        fixed = [reason for reason in rejection["reasons"] if not _is_extended(reason)]
        rejection["reasons"] = fixed + [r for r in reversed(rejection["reasons"]) if _is_extended(r)]
    assert _differences(case) == []


def _is_extended(reason: str) -> bool:
    return reason.startswith("Insufficient ") and ("/" in reason or "hugepages" in reason)


def test_a_changed_best_node_is_a_difference() -> None:
    case, want = next(
        (case, want)
        for case in _cases("resources")
        for want in case["want"]
        if set(want["feasible"]) - set(want.get("best", []))
    )
    want["best"] = [next(node for node in want["feasible"] if node not in want["best"])]
    differences = _differences(case)
    assert any(": best: " in line for line in differences)
    assert any("decide: node: " in line for line in differences)


def test_a_missing_feasible_node_is_a_difference() -> None:
    plain = _case("resources", "feasible")
    _wanted(plain, "feasible")["feasible"].pop()
    assert any(": feasible: " in line for line in _differences(plain))


def test_a_changed_victim_is_a_difference() -> None:
    plain = _case("preemption", "preemption.candidates")
    want = _wanted(plain, "preemption.candidates")
    node, candidate = _first(want["preemption"]["candidates"])
    candidate["victims"][0] = "default/somebody-else"
    assert any(f"preemption.candidates[{node}]" in line for line in _differences(plain))


def test_a_changed_number_of_violations_is_a_difference() -> None:
    plain = _case("preemption", "preemption.candidates")
    _, candidate = _first(_wanted(plain, "preemption.candidates")["preemption"]["candidates"])
    candidate["pdbViolations"] = candidate.get("pdbViolations", 0) + 1
    assert _differences(plain)


def test_another_chosen_node_is_a_difference() -> None:
    case, preemption = next(
        (case, want["preemption"])
        for case in _cases("preemption")
        for want in case["want"]
        if len(want.get("preemption", {}).get("candidates", {})) > 1
    )
    preemption["chosen"] = [name for name in preemption["candidates"] if name not in preemption["chosen"]][:1]
    differences = _differences(case)
    assert any("preemption.chosen" in line for line in differences)
    assert any("decide: nominated node" in line for line in differences)


def test_a_changed_message_is_a_difference() -> None:
    plain = _case("nodeaffinity", "message")
    _wanted(plain, "message")["message"] = "0/1 nodes are available: 1 of them is asleep."
    differences = _differences(plain)
    assert any(": message: " in line for line in differences)
    assert any("decide: message" in line for line in differences)


def test_a_changed_preemption_message_is_a_difference() -> None:
    plain = _case("nodeaffinity", "preemption.message")
    _wanted(plain, "preemption.message")["preemption"]["message"] = "preemption: out of order"
    assert any("preemption.message" in line for line in _differences(plain))


def test_a_changed_plugin_of_the_rejection_is_a_difference() -> None:
    plain = _case("nodeaffinity", "unschedulablePlugins")
    _wanted(plain, "unschedulablePlugins")["unschedulablePlugins"].append("VolumeZone")
    assert any("unschedulablePlugins" in line for line in _differences(plain))


def test_a_changed_narrowing_is_a_difference() -> None:
    plain = _case("nodeaffinity", "nodeNames")
    _wanted(plain, "nodeNames")["nodeNames"].append("node-99")
    assert any("nodeNames" in line for line in _differences(plain))


def test_a_changed_prefilter_status_is_a_difference() -> None:
    plain = _case("volumes", "preFilter")
    _wanted(plain, "preFilter")["preFilter"]["reasons"] = ["no reason"]
    assert any(": preFilter: " in line for line in _differences(plain))


def test_a_changed_device_is_a_difference() -> None:
    case, node, claim, devices = next(
        (case, node, claim, devices)
        for case in _cases("dra")
        for want in case["want"]
        for node, claims in want.get("allocations", {}).items()
        for claim, devices in claims.items()
        if devices
    )
    devices[0] += "-other"
    assert any(f"allocations[{node}][{claim}]" in line for line in _differences(case))


def test_a_pod_out_of_order_is_a_difference() -> None:
    plain = _case("resources", "feasible")
    plain["want"].reverse()
    assert any("wants an answer for" in line for line in _differences(plain))


def test_what_breaks_the_product_is_a_difference() -> None:
    plain = _case("resources", "feasible")
    plain["pods"][0] = plain["want"][0]["pod"] = "default/nobody"
    assert any("KeyError" in line for line in _differences(plain))


def test_a_key_that_nobody_compares_is_refused() -> None:
    plain = _case("resources", "feasible")
    plain["want"][0]["mood"] = "good"
    with pytest.raises(msgspec.ValidationError, match="mood"):
        decode_case(msgspec.json.encode(plain))


def _file(path: Path, *cases: Plain) -> str:
    path.write_bytes(b"\n".join(map(msgspec.json.encode, cases)))
    return str(path)


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = _case("resources", "best"), _case("resources", "best")
    _wanted(bad, "best")["best"] = ["node-99"]
    assert main([_file(tmp_path / "good.jsonl", good)]) == 0
    assert main([_file(tmp_path / "mixed.jsonl", good, bad)]) == 1
    shown = capsys.readouterr().out
    assert "1 of    1 agree" in shown and "1 of    2 agree" in shown
    assert "node-99" in shown


def test_no_case_is_no_agreement(tmp_path: Path) -> None:
    assert main([_file(tmp_path / "empty.jsonl")]) == 1


def test_a_file_that_is_no_file_of_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text('{"id": 1}')
    assert main([str(path)]) == 2
    assert "broken.jsonl:1" in capsys.readouterr().err
