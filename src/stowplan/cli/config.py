"""Checks, converts and completes configuration files (KubeSchedulerConfiguration, YAML or JSON).

  check    says everything that is wrong, with file, line and field; the exit code is 1 if anything is
  convert  writes a file of an older version (v1beta3, v1beta2, v1beta1) as v1, and says what changed
  print    writes the configuration with every default filled in; without a file, the default one
  rbac     writes the roles that a scheduler with this configuration needs, and their bindings

What is written goes to standard output, everything said about it to standard error.

  stowplan config check scheduler.yaml
  stowplan config convert old.yaml > scheduler.yaml
  stowplan config rbac scheduler.yaml | kubectl apply -f -
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from stowplan.cli.files import read_file
from stowplan.cli.main import CommandError

if TYPE_CHECKING:
    from stowplan.config.load import Loaded
    from stowplan.config.profiles import PluginInfo
    from stowplan.config.types import KubeSchedulerConfiguration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="say everything that is wrong with files")
    check.add_argument("file", nargs="+", help="a configuration file, - for standard input")
    check.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="how to show it (default: table)"
    )
    convert = actions.add_parser("convert", help="write a file of an older version as v1")
    convert.add_argument("file", help="a configuration file, - for standard input")
    show = actions.add_parser("print", help="write the configuration with every default filled in")
    show.add_argument("file", nargs="?", help="a configuration file, - for standard input (default: none)")
    rbac = actions.add_parser("rbac", help="write the roles that a scheduler with this configuration needs")
    rbac.add_argument("file", nargs="?", help="a configuration file, - for standard input (default: none)")
    rbac.add_argument("--name", default="stowplan", help="of the service account and the roles (%(default)s)")
    rbac.add_argument("--namespace", default="kube-system", help="where the service account is (%(default)s)")
    rbac.add_argument(
        "--shadow", action="store_true", help="only what `run --shadow` needs: it writes nothing"
    )
    for action in (convert, show, rbac):
        action.add_argument(
            "-o", "--output", choices=("yaml", "json"), default="yaml", help="how to write it (default: yaml)"
        )


def run(arguments: argparse.Namespace) -> int:
    from stowplan.config.problems import ConfigError

    if arguments.action == "check":
        return check(arguments.file, arguments.output)
    try:
        if arguments.action == "convert":
            convert(arguments.file, arguments.output)
        elif arguments.action == "rbac":
            rbac(arguments)
        else:
            show(arguments.file, arguments.output)
    except ConfigError as error:
        _say(error.lines)
        return 1
    return 0


class Verdict(NamedTuple):
    """What came of checking a file."""

    file: str
    profiles: tuple[str, ...] = ()
    """For whom it schedules, if the file is good."""
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check(files: list[str], output: str) -> int:
    import json

    plugins = _plugins()
    verdicts = [_verdict(file, plugins) for file in files]
    if output == "json":
        print(json.dumps([{"good": not each.problems, **each._asdict()} for each in verdicts], indent=2))
    for each in verdicts if output == "table" else ():
        _say(each.problems)
        _say(f"{line} (warning)" for line in each.warnings)
        if not each.problems:
            print(f"{each.file}: good, schedules for {', '.join(each.profiles)}")
    return 1 if any(each.problems for each in verdicts) else 0


def _verdict(file: str, plugins: Mapping[str, PluginInfo]) -> Verdict:
    from stowplan.config.problems import ConfigError

    try:
        loaded = _load(file, plugins)
    except ConfigError as error:
        return Verdict(file, problems=error.lines)
    except CommandError as error:  # the file cannot be read; others may
        return Verdict(file, problems=(str(error),))
    names = tuple(profile.scheduler_name for profile in loaded.profiles)
    return Verdict(file, names, warnings=loaded.warnings)


def convert(file: str, output: str) -> None:
    from stowplan.config.load import convert_configuration

    configuration, warnings = convert_configuration(read_file(file), _label(file))
    _say(warnings)
    _write(configuration, output, with_defaults=False)


def show(file: str | None, output: str) -> None:
    from stowplan.config.writing import with_expanded_args

    loaded = _load_or_default(file)
    _say(loaded.warnings)
    _write(with_expanded_args(loaded.configuration, loaded.profiles), output, with_defaults=True)


def rbac(arguments: argparse.Namespace) -> None:
    import json

    from stowplan.config.rbac import manifests, to_yaml, unknown_plugins

    loaded, shadow = _load_or_default(arguments.file), arguments.shadow
    _say(loaded.warnings)
    _say(
        f"{plugin} comes from another package: what it must be allowed besides is not known (warning)"
        for plugin in unknown_plugins(loaded.profiles)
    )
    made = manifests(
        loaded.configuration,
        loaded.profiles,
        name=arguments.name,
        namespace=arguments.namespace,
        shadow=shadow,
    )
    if arguments.output == "json":
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}, indent=2))
    else:
        print(to_yaml(made, loaded.profiles, shadow=shadow), end="")


def _write(configuration: KubeSchedulerConfiguration, output: str, *, with_defaults: bool) -> None:
    import json

    from stowplan.config.writing import to_data, to_yaml

    if output == "json":
        print(json.dumps(to_data(configuration, with_defaults=with_defaults), indent=2, ensure_ascii=False))
    else:
        print(to_yaml(configuration, with_defaults=with_defaults), end="")


def _load_or_default(file: str | None) -> Loaded:
    from stowplan.config.defaults import default_configuration
    from stowplan.config.load import Loaded
    from stowplan.config.profiles import resolve_profiles

    plugins = _plugins()
    if file is not None:
        return _load(file, plugins)
    configuration = default_configuration()
    return Loaded(configuration, resolve_profiles(configuration, plugins), ())


def _load(file: str, plugins: Mapping[str, PluginInfo]) -> Loaded:
    from stowplan.config.load import load_configuration

    return load_configuration(read_file(file), _label(file), plugins)


def _plugins() -> Mapping[str, PluginInfo]:
    """Every plugin there is here: those of this package and of installed ones."""
    from stowplan.config.profiles import known_plugins
    from stowplan.framework.registry import RegistryError, discover
    from stowplan.plugins import IN_TREE

    try:
        return known_plugins(discover(IN_TREE))
    except RegistryError as error:
        raise CommandError(str(error)) from error


def _label(file: str) -> str:
    return "standard input" if file == "-" else file


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)
