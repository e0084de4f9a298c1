"""`stowplan config`: what it says, what it writes, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from stowplan.cli.main import main

GOOD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def write(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_check_says_that_a_file_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "a.yaml", GOOD + "profiles: [{schedulerName: a}, {schedulerName: b}]")
    assert main(["config", "check", file]) == 0
    assert capsys.readouterr().out == f"{file}: good, schedules for a, b\n"


def test_check_says_all_that_is_wrong_with_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write(tmp_path, "one.yaml", GOOD + "parallelism: 0\nprofile: []\n")
    two = write(
        tmp_path, "two.yaml", GOOD + "profiles: [{plugins: {score: {enabled: [{name: NodeAfinity}]}}}]"
    )
    assert main(["config", "check", one, two]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        f"{one}:3: parallelism: 0 must be greater than zero",
        f'{one}:4: profile: unknown field (did you mean "profiles"?)',
        (
            f'{two}:3: profiles[0].plugins.score.enabled[0]: there is no plugin "NodeAfinity"'
            " (did you mean NodeAffinity?)"
        ),
    ]


def test_check_warns_and_is_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "a.yaml", GOOD + "extenders: [{filterVerb: f}]")
    assert main(["config", "check", file]) == 0
    assert "urlPrefix: is empty: no call to this extender can succeed (warning)" in capsys.readouterr().err


def test_check_tells_programs_the_same_as_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.yaml", GOOD + "extenders: [{filterVerb: f}]")
    bad = write(tmp_path, "bad.yaml", GOOD + "parallelism: 0\n")
    assert main(["config", "check", "-o", "json", good, bad, "/no/file"]) == 1
    shown = capsys.readouterr()
    assert shown.err == ""
    verdicts = json.loads(shown.out)
    assert [each["file"] for each in verdicts] == [good, bad, "/no/file"]
    assert [each["good"] for each in verdicts] == [True, False, False]
    assert verdicts[0]["profiles"] == ["default-scheduler"]
    assert any("urlPrefix: is empty" in line for line in verdicts[0]["warnings"])
    assert verdicts[1]["problems"] == [f"{bad}:3: parallelism: 0 must be greater than zero"]
    assert verdicts[2]["problems"] == ["/no/file: No such file or directory"]


def test_convert_writes_v1_and_says_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "old.yaml", GOOD.replace("/v1", "/v1beta2") + "healthzBindAddress: ''\n")
    assert main(["config", "convert", file]) == 0
    shown = capsys.readouterr()
    assert yaml.safe_load(shown.out)["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert f"{file}:3: healthzBindAddress: has no effect any more" in shown.err
    assert main(["config", "check", write(tmp_path, "new.yaml", shown.out)]) == 0


def test_convert_refuses_what_v1_cannot_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "profiles: [{plugins: {filter: {enabled: [{name: ServiceAffinity}]}}}]"
    file = write(tmp_path, "old.yaml", GOOD.replace("/v1", "/v1beta1") + body)
    assert main(["config", "convert", file]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "ServiceAffinity is gone" in shown.err


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_print_writes_the_default_configuration(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "print", "-o", output]) == 0
    text = capsys.readouterr().out
    data = yaml.safe_load(text) if output == "yaml" else json.loads(text)
    (profile,) = data["profiles"]
    assert profile["schedulerName"] == "default-scheduler"
    args = {config["name"]: config["args"] for config in profile["pluginConfig"]}
    assert args["DefaultPreemption"]["minCandidateNodesAbsolute"] == 100
    assert args["NodeResourcesFit"]["scoringStrategy"]["type"] == "LeastAllocated"


def test_what_print_writes_is_what_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "percentageOfNodesToScore: 30\nprofiles: [{plugins: {score: {disabled: [{name: '*'}]}}}]"
    assert main(["config", "print", write(tmp_path, "a.yaml", GOOD + body)]) == 0
    once = capsys.readouterr().out
    assert main(["config", "print", write(tmp_path, "b.yaml", once)]) == 0
    assert capsys.readouterr().out == once
    assert "percentageOfNodesToScore: 30" in once


@pytest.mark.parametrize("action", ["convert", "print", "rbac"])
def test_a_file_that_is_not_there_is_one_line(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", action, "nowhere.yaml"]) == 1
    assert capsys.readouterr().err == "stowplan: nowhere.yaml: No such file or directory\n"


def test_a_file_that_is_not_there_keeps_no_other_from_being_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path, "a.yaml", GOOD)
    assert main(["config", "check", "nowhere.yaml", good]) == 1
    shown = capsys.readouterr()
    assert shown.err == "nowhere.yaml: No such file or directory\n"
    assert shown.out == f"{good}: good, schedules for default-scheduler\n"


def test_rbac_writes_roles_as_yaml_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "rbac", "--name", "mine", "--namespace", "here"]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert documents[0]["kind"] == "ClusterRole" and documents[0]["metadata"]["name"] == "mine"
    assert main(["config", "rbac", "--name", "mine", "--namespace", "here", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": documents}


def test_rbac_follows_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "rbac"]) == 0
    assert "namespaces" in capsys.readouterr().out
    body = "profiles: [{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}]"
    assert main(["config", "rbac", write(tmp_path, "a.yaml", GOOD + body)]) == 0
    shown = capsys.readouterr()
    assert "namespaces" not in shown.out
    assert shown.err == ""


def test_rbac_of_a_wrong_file_is_what_check_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "a.yaml", GOOD + "parallelism: 0\n")
    assert main(["config", "rbac", file]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"{file}:3: parallelism: 0 must be greater than zero\n"
