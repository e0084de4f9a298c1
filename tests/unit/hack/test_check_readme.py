"""The check that a page's commands exist: hack/check_readme.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.check_readme import check, commands, main

ROOT = Path(__file__).parents[3]


def page(*lines: str) -> str:
    return "\n".join(["# A page", "", "```sh", *lines, "```", "make nothing-outside-a-block", ""])


def words(*lines: str) -> list[tuple[str, ...]]:
    return [line.words for line in commands(page(*lines))]


def problems(*lines: str) -> list[str]:
    return list(check(page(*lines), ROOT))


def test_commands_are_read_without_prompt_comment_environment_and_redirection() -> None:
    assert words("$ CI=true make demo  # why", "# only a comment", "") == [("make", "demo")]
    assert words("make demo && make test > log | tail -1") == [
        ("make", "demo"),
        ("make", "test"),
        ("tail", "-1"),
    ]
    assert words("make conformance \\", '    CASES="a|b c"') == [("make", "conformance", "CASES=a|b c")]


def test_other_languages_blocks_are_not_commands() -> None:
    assert list(commands("```python\nmake nonsense\n```\n")) == []


def test_commands_in_sentences_and_tables_are_read_and_other_code_is_not() -> None:
    text = (
        page("make demo")
        + "| see | `make nope` |\nThe class `make_pod`, `stowplan.testing`, `make`; `stowplan run --v`.\n"
    )
    assert [line.words for line in commands(text)] == [
        ("make", "demo"),
        ("make", "nope"),
        ("stowplan", "run", "--v"),
    ]
    assert list(check(text, ROOT)) == ["7: the Makefile has no target 'nope'"]


@pytest.mark.parametrize(
    "line",
    [
        "make demo",
        'make conformance CASES="one.jsonl.gz"',
        ".venv/bin/stowplan demo -o json",
        "stowplan --version",
        "stowplan explain --config a",
        "stowplan run --config",
        "stowplan run --help",
        ".venv/bin/python -m pytest tests/control_plane/test_smoke.py::test_x",
        "python3 -m stowplan demo",
        "hack/control-plane/build.sh --where",
        "python -m pip install ../stowplan pytest",
        "git clone somewhere",
    ],
)
def test_a_command_that_exists_passes(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("make nope", "the Makefile has no target 'nope'"),
        ("stowplan nope", "stowplan has no command 'nope'"),
        ("stowplan config nope", "argument ACTION: invalid choice: 'nope'"),
        ("stowplan explain -f a --nope pod", "unrecognized arguments: --nope"),
        (
            "stowplan run --kubeconfg=a",
            "stowplan run: unknown flag: --kubeconfg (did you mean --kubeconfig?)",
        ),
        ("python -m stowplan.nope", "no such module: stowplan.nope"),
        ("python -m pytest tests/nope.py::test", "no such file: tests/nope.py"),
        ("python -m pytest .ci/nope.py", "no such file: .ci/nope.py"),
        ("hack/nope.sh", "no such file: hack/nope.sh"),
        ("make demo && make nope", "the Makefile has no target 'nope'"),
    ],
)
def test_a_command_that_does_not_exist_is_named_with_its_line(line: str, complaint: str) -> None:
    (problem,) = problems("make demo", line)
    assert problem.startswith("5: ") and complaint in problem


def test_the_script_fails_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.md"
    bad.write_text(page("make nope"))
    assert main([str(bad)]) == 1
    assert f"{bad}:4: the Makefile has no target 'nope'" in capsys.readouterr().err
