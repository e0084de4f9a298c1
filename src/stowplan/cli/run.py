"""Schedules the pods of a cluster, in the place of kube-scheduler or beside it.

The configuration file and the flags are kube-scheduler's:

  stowplan run --kubeconfig ~/.kube/config --leader-elect=false
  stowplan run --config /etc/kubernetes/scheduler.yaml -v 2

Where neither a flag nor the file names a kubeconfig, the service account of the pod it runs in is used, else
$KUBECONFIG or ~/.kube/config.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stowplan import __version__
from stowplan.cli.flags import FlagError, Given, HelpWanted
from stowplan.cli.main import CommandError
from stowplan.cli.run_flags import ONLY_WITHOUT_CONFIG, RUN_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan.config.profiles import PluginInfo
    from stowplan.config.types import KubeSchedulerConfiguration
    from stowplan.framework.profile import ProfilePlan
    from stowplan.ops.certificates import Pair, ServingSettings
    from stowplan.ops.logs import LogSettings
    from stowplan.ops.server import ServerSettings

_KUBERNETES = "v1.36"
"""The version of Kubernetes whose scheduler this one behaves as."""


def run_words(words: Sequence[str]) -> int:
    """What follows `stowplan run`. Returns the exit code."""
    try:
        given = RUN_FLAGS.parse(words)
        if given["version"]:
            _print_version(given["version"])
            return 0
        return _run(given)
    except HelpWanted:
        print(RUN_FLAGS.help(__doc__ or ""))
        return 0
    except FlagError as problem:
        raise CommandError(f"run: {problem}") from None


def _print_version(wanted: str) -> None:
    if wanted in ("true", "1"):
        print(f"stowplan {__version__} (Kubernetes {_KUBERNETES})")
    elif wanted == "raw":
        python = ".".join(map(str, sys.version_info[:3]))
        print(f"stowplan {__version__}, Kubernetes {_KUBERNETES}, Python {python}, {sys.platform}")
    else:
        raise FlagError(f"--version: {wanted!r}: write --version or --version=raw")


def _run(given: Given) -> int:
    from stowplan.cli.gates import gate_warnings

    logs = _log_settings(given)
    warnings = [*given.warnings, *gate_warnings(given["feature-gates"])]
    configuration, profiles, said = _configuration(given)
    warnings += said
    server = _server_settings(given) if given["secure-port"] else None
    if given["write-config-to"]:
        _write_config(given["write-config-to"], configuration, profiles)
        return 0
    from stowplan.cli import running
    from stowplan.cli.process import RunSettings

    return running.serve(
        RunSettings(
            configuration=configuration,
            profiles=profiles,
            logs=logs,
            flush_every=given["log-flush-frequency"].seconds,
            warnings=tuple(warnings),
            master=given["master"],
            max_in_unschedulable=given["pod-max-in-unschedulable-pods-duration"].seconds,
            server=server,
            authentication_kubeconfig=given["authentication-kubeconfig"],
            authorization_kubeconfig=given["authorization-kubeconfig"],
            disabled_metrics=frozenset(given["disabled-metrics"]),
            shadow=given["shadow"],
        )
    )


# The configuration


def _configuration(
    given: Given,
) -> tuple[KubeSchedulerConfiguration, tuple[ProfilePlan, ...], list[str]]:
    """What is configured, complete and checked: the file, or the flags that stand for its fields."""
    from stowplan.cli.files import read_file
    from stowplan.config.defaults import completed
    from stowplan.config.load import load_configuration
    from stowplan.config.problems import ConfigError
    from stowplan.config.profiles import resolve_profiles
    from stowplan.config.types import KubeSchedulerConfiguration
    from stowplan.config.validate import problems_of

    plugins = _plugins()
    try:
        if given["config"]:
            loaded = load_configuration(
                read_file(given["config"]), given["config"], plugins, partial(_with_election_flags, given)
            )
            useless = sorted(given.named & ONLY_WITHOUT_CONFIG)
            warnings = [*loaded.warnings, *(f"--{name} has no effect with --config" for name in useless)]
            return loaded.configuration, loaded.profiles, warnings
        configuration = completed(_from_flags(given, KubeSchedulerConfiguration()))
        configuration = _with_election_flags(given, configuration)
        problems = list(problems_of(configuration))
        if problems:
            raise ConfigError(problems)
        return configuration, resolve_profiles(configuration, plugins), []
    except ConfigError as error:
        raise CommandError("\n".join(error.lines)) from None


def _from_flags(given: Given, base: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The fields for which there have been flags since before there was a file."""
    import msgspec

    from stowplan.config.types import Profile

    def named(**fields: str) -> dict[str, Any]:
        return {name: given[flag] for name, flag in fields.items() if flag in given.named}

    connection = msgspec.structs.replace(
        base.client_connection,
        **named(
            kubeconfig="kubeconfig",
            content_type="kube-api-content-type",
            qps="kube-api-qps",
            burst="kube-api-burst",
        ),
    )
    election = msgspec.structs.replace(
        base.leader_election,
        **named(resource_name="lock-object-name", resource_namespace="lock-object-namespace"),
    )
    if given["scheduler-name"]:
        base = msgspec.structs.replace(base, profiles=(Profile(scheduler_name=given["scheduler-name"]),))
    return msgspec.structs.replace(
        base,
        client_connection=connection,
        leader_election=election,
        **named(enable_profiling="profiling", enable_contention_profiling="contention-profiling"),
    )


_ELECTION_FLAGS = {
    "leader_elect": "leader-elect",
    "lease_duration": "leader-elect-lease-duration",
    "renew_deadline": "leader-elect-renew-deadline",
    "retry_period": "leader-elect-retry-period",
    "resource_lock": "leader-elect-resource-lock",
    "resource_name": "leader-elect-resource-name",
    "resource_namespace": "leader-elect-resource-namespace",
}


def _with_election_flags(given: Given, base: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Here flags count for more than the file."""
    import msgspec

    changes = {name: given[flag] for name, flag in _ELECTION_FLAGS.items() if flag in given.named}
    election = msgspec.structs.replace(base.leader_election, **changes)
    return msgspec.structs.replace(base, leader_election=election)


def _plugins() -> Mapping[str, PluginInfo]:
    from stowplan.config.profiles import known_plugins
    from stowplan.framework.registry import RegistryError, discover
    from stowplan.plugins import IN_TREE

    try:
        return known_plugins(discover(IN_TREE))
    except RegistryError as error:
        raise CommandError(str(error)) from error


def _write_config(
    file: str, configuration: KubeSchedulerConfiguration, profiles: tuple[ProfilePlan, ...]
) -> None:
    from stowplan.config.writing import to_yaml, with_expanded_args

    try:
        Path(file).write_text(to_yaml(with_expanded_args(configuration, profiles)))
    except OSError as problem:
        raise CommandError(f"--write-config-to: {file}: {problem.strerror}") from None
    print(f"wrote the configuration to {file}", file=sys.stderr)


# Logs


def _log_settings(given: Given) -> LogSettings:
    from stowplan.ops.logs import LogSettings, parse_modules

    form = given["logging-format"]
    if form not in ("text", "json"):
        raise FlagError(f"--logging-format: {form!r}: must be text or json")
    try:
        modules = tuple(module for text in given["vmodule"] for module in parse_modules(text))
    except ValueError as problem:
        raise FlagError(f"--vmodule: {problem}") from None
    split, buffered = given[f"log-{form}-split-stream"], given[f"log-{form}-info-buffer-size"]
    return LogSettings(form, given["v"], modules, split, buffered)


# The server


def _server_settings(given: Given) -> ServerSettings:
    import ipaddress

    from stowplan.ops.authentication import Authorities, RequestHeaders
    from stowplan.ops.server import ServerSettings

    address = given["bind-address"]
    try:
        ipaddress.ip_address(address or "0.0.0.0")
    except ValueError:
        raise FlagError(f"--bind-address: {address!r} is not an IP address") from None
    proxies = RequestHeaders(
        authorities=_pem("requestheader-client-ca-file", given),
        allowed_names=frozenset(given["requestheader-allowed-names"]),
        user=_lower(given["requestheader-username-headers"]),
        uid=_lower(given["requestheader-uid-headers"]),
        group=_lower(given["requestheader-group-headers"]),
        extra_prefixes=_lower(given["requestheader-extra-headers-prefix"]),
    )
    return ServerSettings(
        address=address,
        port=given["secure-port"],
        share_address=given["permit-address-sharing"],
        share_port=given["permit-port-sharing"],
        certificates=_certificates(given),
        authorities=Authorities(_pem("client-ca-file", given), proxies),
        look_up_authorities=not given["authentication-skip-lookup"],
        tolerate_lookup_failure=given["authentication-tolerate-lookup-failure"],
        token_seconds=given["authentication-token-webhook-cache-ttl"].seconds,
        always_allowed=given["authorization-always-allow-paths"],
        allowed_seconds=given["authorization-webhook-cache-authorized-ttl"].seconds,
        denied_seconds=given["authorization-webhook-cache-unauthorized-ttl"].seconds,
    )


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _pem(flag: str, given: Given) -> str:
    if not given[flag]:
        return ""
    try:
        text = Path(given[flag]).read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise FlagError(f"--{flag}: {given[flag]}: {getattr(problem, 'strerror', 'is not PEM')}") from None
    if not text.strip():  # it would count as not named, and the authorities of the cluster would be believed
        raise FlagError(f"--{flag}: {given[flag]}: is empty; it must hold certificates in PEM")
    return text


def _certificates(given: Given) -> ServingSettings:
    from stowplan.ops.certificates import VERSIONS, Pair, ServingSettings, cipher_list, in_folder

    certificate, key = given["tls-cert-file"], given["tls-private-key-file"]
    if bool(certificate) != bool(key):
        raise FlagError("--tls-cert-file and --tls-private-key-file must be given together")
    pair: Pair | None = Pair(Path(certificate), Path(key)) if certificate else None
    if pair is None and given["cert-dir"]:
        try:
            pair = in_folder(Path(given["cert-dir"]), "kube-scheduler")
        except OSError as problem:
            raise FlagError(f"--cert-dir: {problem.filename}: {problem.strerror}") from None
    version = given["tls-min-version"] or "VersionTLS12"
    if version not in VERSIONS:
        raise FlagError(f"--tls-min-version: {version!r} must be one of {', '.join(VERSIONS)}")
    try:
        ciphers = cipher_list(given["tls-cipher-suites"])
    except ValueError as problem:
        raise FlagError(f"--tls-cipher-suites: {problem}") from None
    by_name = tuple(_named_pair(text) for text in given["tls-sni-cert-key"])
    return ServingSettings(pair, by_name, VERSIONS[version], ciphers)


def _named_pair(text: str) -> Pair:
    from stowplan.ops.certificates import Pair

    files, _, names = text.partition(":")
    certificate, comma, key = files.partition(",")
    if not (certificate and comma and key):
        raise FlagError(f"--tls-sni-cert-key: {text!r} is not of the form cert,key or cert,key:name,name")
    return Pair(Path(certificate.strip()), Path(key.strip()), tuple(filter(None, names.split(","))))
