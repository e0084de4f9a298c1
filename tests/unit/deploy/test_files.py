"""The files of deploy/, as far as they can be judged without a cluster, Docker or systemd."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

import stowplan
from stowplan.cli.main import main
from stowplan.cli.run_flags import RUN_FLAGS
from stowplan.config.load import Loaded, load_configuration
from stowplan.config.profiles import known_plugins
from stowplan.plugins import IN_TREE

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


def configuration(folder: str) -> Loaded:
    file = DEPLOY / folder / "config.yaml"
    return load_configuration(file.read_bytes(), str(file), known_plugins(IN_TREE))


@pytest.mark.parametrize("folder", ["second-scheduler", "default-scheduler"])
def test_roles_are_those_that_the_configuration_needs(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "rbac", str(DEPLOY / folder / "config.yaml")]) == 0
    wanted = capsys.readouterr().out
    remedy = f"stowplan config rbac deploy/{folder}/config.yaml > deploy/{folder}/rbac.yaml"
    assert (DEPLOY / folder / "rbac.yaml").read_text() == wanted, remedy


@pytest.mark.parametrize("folder", ["second-scheduler", "default-scheduler", "systemd"])
def test_configurations_are_good(folder: str) -> None:
    assert configuration(folder).warnings == ()


def test_each_scheduler_leads_for_its_own_pods() -> None:
    second, default = configuration("second-scheduler"), configuration("default-scheduler")
    assert second.profiles[0].scheduler_name == "stowplan"
    assert second.configuration.leader_election.resource_name == "stowplan"
    assert default.profiles[0].scheduler_name == "default-scheduler"
    # kube-scheduler's lease: whichever of the two has it, the other one only waits
    assert default.configuration.leader_election.resource_name == "kube-scheduler"
    assert configuration("systemd").configuration.leader_election.resource_name == "kube-scheduler"


def test_the_image_has_the_version_of_the_package() -> None:
    assert f"newTag: {stowplan.__version__}\n" in (DEPLOY / "base" / "kustomization.yaml").read_text()
    assert f"--tag stowplan:{stowplan.__version__} ." in (DEPLOY / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each on one line."""
    text = re.sub(r"\\\n", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_runs_as_nobody_special() -> None:
    stages = [rest for word, rest in instructions() if word == "FROM"]
    last = max(i for i, (word, _) in enumerate(instructions()) if word == "FROM")
    final = dict(instructions()[last:])
    assert len(stages) == 2 and all(stage.startswith("python:${PYTHON}-slim") for stage in stages)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", final["USER"])
    assert "RUN" not in final
    assert (final["ENTRYPOINT"], final["CMD"]) == ('["/opt/stowplan/bin/stowplan"]', '["run"]')


def test_the_image_is_made_of_what_the_build_may_see() -> None:
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        source.rstrip("/")
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in shlex.split(rest)[:-1]
    ]
    assert copied and all((ROOT / source).exists() for source in copied)
    assert {f"!{source}" for source in copied} == {line for line in ignore if line.startswith("!")}


def test_what_the_image_installs_is_pinned_as_it_was_tested() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / name).read_text()
        return set(re.findall(r"^([\w.-]+==[^ ;\\]+)", text, re.MULTILINE))

    assert pins("run.txt") < pins("dev.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=~!\[ ]", each)[0].lower() for each in project["dependencies"]}
    assert needed <= {pin.partition("==")[0] for pin in pins("run.txt")}


def test_what_is_started_is_a_command_with_flags_that_exist() -> None:
    pod = yaml.safe_load((DEPLOY / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    unit = re.sub(r"\\\n", "", (DEPLOY / "systemd" / "stowplan.service").read_text())
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    for words in (pod["containers"][0]["args"], shlex.split(line)[1:]):
        assert words[0] == "run"
        assert RUN_FLAGS.parse(words[1:])["config"] == "/etc/stowplan/config.yaml"


def test_the_probes_ask_where_it_serves() -> None:
    pod = yaml.safe_load((DEPLOY / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (port,) = container["ports"]
    assert port["containerPort"] == RUN_FLAGS.parse([])["secure-port"]
    paths = {}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        ask = container[probe]["httpGet"]
        assert (ask["scheme"], ask["port"]) == ("HTTPS", port["name"])
        paths[probe] = ask["path"]
    assert set(paths.values()) <= set(RUN_FLAGS.parse([])["authorization-always-allow-paths"])
    assert paths["readinessProbe"] == "/readyz"


def test_the_unit_leaves_kube_scheduler_its_port() -> None:
    """Both run on the host while one takes the other's place, there and back."""
    unit = (DEPLOY / "systemd" / "stowplan.service").read_text()
    (port,) = re.findall(r"--secure-port=(\d+)", unit)
    assert int(port) != RUN_FLAGS.parse([])["secure-port"]
    assert f"{port} with the systemd unit" in (DEPLOY.parent / "docs" / "running.md").read_text()


def test_the_unit_finds_its_credentials_where_systemd_puts_them() -> None:
    unit = (DEPLOY / "systemd" / "stowplan.service").read_text()
    kubeconfig = configuration("systemd").configuration.client_connection.kubeconfig
    assert kubeconfig == "/run/credentials/stowplan.service/kubeconfig"
    assert "\nLoadCredential=kubeconfig:" in unit
    assert "\nDynamicUser=yes\n" in unit and "\nNoNewPrivileges=yes\n" in unit
    assert "--authorization-kubeconfig=%d/kubeconfig\n" in unit
