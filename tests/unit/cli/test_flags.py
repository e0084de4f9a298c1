from __future__ import annotations

import pytest

from stowplan.cli.flags import (
    DURATION,
    EACH,
    LIST,
    NUMBER,
    PERIOD,
    PORT,
    REAL,
    SIZE,
    SWITCH,
    TEXT,
    Flag,
    FlagError,
    FlagSet,
    HelpWanted,
)

FLAGS = FlagSet(
    "x [flags]",
    {
        "Main": (
            Flag("name", TEXT, "none", "A name."),
            Flag("on", SWITCH, False, "A switch."),
            Flag("off-by-default-no", SWITCH, True, "Another."),
            Flag("count", NUMBER, 3, "A number.", short="c"),
            Flag("rate", REAL, 0.5, "A rate."),
            Flag("wait", DURATION, "1m", "A time."),
            Flag("every", PERIOD, "5s", "A period."),
            Flag("port", PORT, 0, "A port."),
            Flag("some", LIST, ("a",), "A list."),
            Flag("each", EACH, (), "Things."),
            Flag("size", SIZE, "0", "A size."),
            Flag("idle", TEXT, "", ignored="there is nothing to do"),
        ),
        "Old": (Flag("ancient", TEXT, "", "", deprecated="use --name", hidden=True),),
    },
)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("--name=x", "name", "x"),
        ("--name x", "name", "x"),
        ("--name=", "name", ""),
        ("--name=a=b", "name", "a=b"),
        ("--name a --name b", "name", "b"),
        ("--on", "on", True),
        ("--on=true", "on", True),
        ("--off-by-default-no=false", "off-by-default-no", False),
        ("--off_by_default_no=F", "off-by-default-no", False),
        ("--count -5", "count", -5),
        ("-c 7", "count", 7),
        ("-c=7", "count", 7),
        ("-c7", "count", 7),
        ("--rate=1e3", "rate", 1000.0),
        ("--wait=1h30m", "wait", 5400 * 10**9),
        ("--every=10", "every", 10 * 10**9),
        ("--some=x,y --some z", "some", ("x", "y", "z")),
        ("--each a,b --each c", "each", ("a,b", "c")),
        ("--size=4Ki", "size", 4096),
    ],
)
def test_values_are_read_as_kubernetes_components_do(words: str, name: str, value: object) -> None:
    given = FLAGS.parse(words.split())
    assert given[name] == value
    assert given.named == {name}


def test_what_is_not_given_has_its_default() -> None:
    given = FLAGS.parse([])
    assert (given["name"], given["on"], given["count"], given["some"]) == ("none", False, 3, ("a",))
    assert given["wait"] == 60 * 10**9
    assert not given.named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--nmae=x", "unknown flag: --nmae (did you mean --name?)"),
        ("--zzz", "unknown flag: --zzz (x --help lists all)"),
        ("-name=x", "unknown flag: -name=x (did you mean --name?)"),
        ("-z", "unknown flag: -z (x --help lists all)"),
        ("--name", "flag needs a value: --name string"),
        ("--on yes", "takes no arguments, got 'yes'; flags start with --"),
        ("extra", "takes no arguments, got 'extra'; flags start with --"),
        ("--", "takes no arguments, got '--'; flags start with --"),
        ("--on=maybe", "--on: 'maybe': must be true or false"),
        ("--count=x", "--count: 'x': is not a whole number"),
        ("--count=99999999999", "--count: '99999999999': must be between -2147483648 and 2147483647"),
        ("--port=70000", "--port: '70000': must be between 0 and 65535"),
        ("--size=x", "--size: 'x': \"x\" is not a quantity such as 250m, 1.5Gi or 2e3"),
        ("--rate=x", "--rate: 'x': is not a number"),
        ("--wait=5", "--wait: '5': the duration \"5\" lacks a unit; units are ns, us, ms, s, m and h"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(words: str, said: str) -> None:
    with pytest.raises(FlagError) as wrong:
        FLAGS.parse(words.split())
    assert str(wrong.value) == said


def test_an_old_flag_is_taken_and_warned_of_once() -> None:
    given = FLAGS.parse(["--ancient=a", "--ancient=b"])
    assert given.warnings == ["--ancient is deprecated: use --name"]


def test_a_flag_without_effect_is_taken_and_warned_of() -> None:
    assert FLAGS.parse(["--idle=a"]).warnings == ["--idle has no effect: there is nothing to do"]
    assert "Accepted, without effect: there is nothing to do." in FLAGS.help("")


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_asked_for_anywhere(word: str) -> None:
    with pytest.raises(HelpWanted):
        FLAGS.parse(["--on", word])


def test_help_shows_flags_with_their_defaults_and_hides_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = FLAGS.help("About it.")
    assert text.startswith("usage: x [flags]\n\nAbout it.\n\nMain:\n")
    assert "  --name string                   A name. (default none)\n" in text
    assert "  -c, --count int                 A number. (default 3)\n" in text
    assert "(default true)" in text
    assert "ancient" not in text
    assert "Old" not in text
    assert max(map(len, text.splitlines())) <= 80
