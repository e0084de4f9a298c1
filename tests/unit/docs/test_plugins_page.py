"""docs/plugins.md, followed to the letter: files are written, commands run that need no network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
EXAMPLE = ROOT / "examples" / "stowplan-example-plugins" / "src" / "stowplan_example_plugins"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./]+)\n(.*)", re.DOTALL)
SETS_UP = ("mkdir", "cd", "python3 -m venv", ".venv/bin/python -m pip")


def announce(folder: Path) -> None:
    """What installing the package leaves behind: a note of its entry points."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    about = folder / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    plugins = project["entry-points"]["stowplan.plugins"]
    lines = ["[stowplan.plugins]", *(f"{name} = {place}" for name, place in plugins.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))


def run(folder: Path, command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program.startswith(".venv/bin/"), command
    done = subprocess.run(
        [Path(sys.executable).with_name(Path(program).name), *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": f"{folder / 'src'}:{folder / 'site'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Each command with what it printed, in the order of the page."""
    folder = tmp_path_factory.mktemp("my-plugins")
    answers = []
    for language, body in BLOCK.findall(PAGE):
        named = FILE.fullmatch(body)
        if language == "sh":
            commands = [line for line in body.splitlines() if not line.startswith(SETS_UP)]
            answers += [(command, run(folder, command)) for command in commands]
        elif named:
            file = folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(named[2])
            if file.name == "pyproject.toml":
                announce(folder)
    return answers


def test_the_tests_of_the_page_pass(answers: list[tuple[str, str]]) -> None:
    ran = [re.search(r"(\d+) passed", printed) for command, printed in answers if command.endswith("pytest")]
    assert [int(passed[1]) for passed in ran if passed] == [1, 4]


def test_its_configuration_is_good(answers: list[tuple[str, str]]) -> None:
    (printed,) = [printed for command, printed in answers if "config check" in command]
    assert printed == "scheduler.yaml: good, schedules for default-scheduler\n"


def test_its_plugin_decides_in_both_forms(answers: list[tuple[str, str]]) -> None:
    per_node, all_nodes = [printed for command, printed in answers if " explain " in command]
    assert per_node == all_nodes
    assert per_node.startswith("Pod default/web: goes to small\n")
    assert "SmallestNode" in per_node


@pytest.mark.parametrize("name", ["qos_sort.py", "smallest_node.py"])
def test_its_plugins_are_those_of_the_example(name: str) -> None:
    written = [body for _, body in BLOCK.findall(PAGE) if body.startswith(f"# src/my_plugins/{name}\n")]
    assert written[-1].partition("\n")[2] == (EXAMPLE / name).read_text()
