"""`stowplan run` up to the point where it would start."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from stowplan.cli import main as entry
from stowplan.cli import running
from stowplan.cli.process import RunSettings
from stowplan.cli.run_flags import RUN_FLAGS
from stowplan.plugins.node_name import NodeName
from tests.control_plane import binaries

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, leaseDuration: 20s}
clientConnection: {kubeconfig: /etc/of-the-file, qps: 7}
profiles: [{schedulerName: one}, {schedulerName: two}]
"""


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What would be run for a command line, after {file} was replaced by a configuration file."""
    seen: list[RunSettings] = []

    def remember(settings: RunSettings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(running, "serve", remember)
    file = tmp_path / "scheduler.yaml"
    file.write_text(FILE)

    def settings_of(words: str) -> RunSettings:
        assert entry.main(["run", *words.format(file=file).split()]) == 0
        return seen[-1]

    return settings_of


def test_without_flags_it_is_kube_scheduler_as_it_comes(settings_of: Any) -> None:
    settings = settings_of("")
    configuration = settings.configuration
    assert [profile.scheduler_name for profile in settings.profiles] == ["default-scheduler"]
    assert configuration.leader_election.leader_elect
    assert configuration.leader_election.resource_name == "kube-scheduler"
    assert (configuration.client_connection.qps, configuration.client_connection.burst) == (50, 100)
    assert settings.max_in_unschedulable == 300
    assert settings.server.port == 10259
    assert settings.server.address == "0.0.0.0"
    assert settings.server.always_allowed == ("/healthz", "/readyz", "/livez")
    assert settings.warnings == ()
    assert not settings.shadow


def test_flags_stand_for_fields_where_there_is_no_file(settings_of: Any) -> None:
    configuration = settings_of(
        "--kubeconfig=/k --kube-api-qps=5 --kube-api-burst 6 --profiling=false --leader-elect=false"
    ).configuration
    assert configuration.client_connection.kubeconfig == "/k"
    assert (configuration.client_connection.qps, configuration.client_connection.burst) == (5, 6)
    assert not configuration.enable_profiling
    assert not configuration.leader_election.leader_elect


def test_with_a_file_only_leader_election_flags_count(settings_of: Any) -> None:
    settings = settings_of(
        "--config={file} --kubeconfig=/k --kube-api-qps=99 --leader-elect-lease-duration=30s"
    )
    configuration = settings.configuration
    assert configuration.client_connection.kubeconfig == "/etc/of-the-file"
    assert configuration.client_connection.qps == 7
    assert configuration.leader_election.lease_duration.seconds == 30
    assert [profile.scheduler_name for profile in settings.profiles] == ["one", "two"]
    assert settings.warnings == (
        "--kube-api-qps has no effect with --config",
        "--kubeconfig has no effect with --config",
    )
    assert settings_of("--config {file}").configuration.leader_election.lease_duration.seconds == 20


def test_election_flags_mend_and_spoil_what_the_file_says(
    settings_of: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "of-old.yaml"
    file.write_text(FILE.replace("leaseDuration: 20s", "leaseDuration: 5s, resourceLock: endpoints"))
    mended = settings_of(
        f"--config={file} --leader-elect-lease-duration=20s --leader-elect-resource-lock=leases"
    )
    assert mended.configuration.leader_election.lease_duration.seconds == 20
    assert not settings_of(f"--config={file} --leader-elect=false").configuration.leader_election.leader_elect
    assert entry.main(["run", f"--config={file}", "--leader-elect-resource-name="]) == 1
    said = capsys.readouterr().err
    assert f"{file}:4: leaderElection.leaseDuration: 5s must be greater" in said
    assert f"{file}:4: leaderElection.resourceName: must not be empty" in said


def test_old_flags_for_fields_of_the_file_have_no_effect_beside_it(settings_of: Any) -> None:
    settings = settings_of(
        "--config={file} --lock-object-name=x --lock-object-namespace=y --scheduler-name=z"
    )
    election = settings.configuration.leader_election
    assert (election.resource_name, election.resource_namespace) == ("kube-scheduler", "kube-system")
    assert [profile.scheduler_name for profile in settings.profiles] == ["one", "two"]
    for name in ("lock-object-name", "lock-object-namespace", "scheduler-name"):
        assert f"--{name} has no effect with --config" in settings.warnings


def test_a_unit_file_of_old_still_starts(settings_of: Any) -> None:
    settings = settings_of(
        "--logtostderr=true --v=2 --port=0 --address=127.0.0.1 --kubeconfig=/k --master=https://m:6443 "
        "--policy-config-file=/p --algorithm-provider=DefaultProvider --scheduler-name=mine "
        "--lock-object-name=my-lease --lock-object-namespace=there --feature-gates=PodPriority=true"
    )
    assert settings.configuration.profiles[0].scheduler_name == "mine"
    assert settings.configuration.leader_election.resource_name == "my-lease"
    assert settings.configuration.leader_election.resource_namespace == "there"
    assert settings.master == "https://m:6443"
    assert settings.logs.verbosity == 2
    for name in ("logtostderr", "port", "address", "policy-config-file", "algorithm-provider"):
        assert sum(f"--{name} is deprecated" in line for line in settings.warnings) == 1
    assert any("PodPriority" in line for line in settings.warnings)


def test_what_has_no_effect_is_said(settings_of: Any) -> None:
    assert settings_of("--emulated-version=1.35").warnings == (
        "--emulated-version has no effect: stowplan behaves as Kubernetes 1.36",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--no-such-flag", "run: unknown flag: --no-such-flag"),
        ("--leader-elect-renew-deadline=20s", "leaderElection.leaseDuration"),
        ("--config=/no/such/file", "/no/such/file: No such file or directory"),
        ("--tls-cert-file=/x", "--tls-cert-file and --tls-private-key-file must be given together"),
        ("--bind-address=here", "--bind-address: 'here' is not an IP address"),
        ("--tls-min-version=1.2", "--tls-min-version: '1.2' must be one of VersionTLS10,"),
        ("--tls-cipher-suites=X", "cipher suite X is not supported"),
        ("--tls-sni-cert-key=a", "--tls-sni-cert-key: 'a' is not of the form"),
        ("--client-ca-file=/no/ca", "--client-ca-file: /no/ca: No such file or directory"),
        ("--client-ca-file=/dev/null", "--client-ca-file: /dev/null: is empty; it must hold certificates"),
        ("--requestheader-client-ca-file=/dev/null", "--requestheader-client-ca-file: /dev/null: is empty"),
        ("--logging-format=xml", "--logging-format: 'xml': must be text or json"),
        ("--vmodule=x", "--vmodule: 'x' is not of the form pattern=N"),
        ("--version=2", "--version: '2'"),
        ("--log-json-info-buffer-size=x", "--log-json-info-buffer-size: 'x'"),
        ("--bind-address=here --write-config-to=/no/file", "--bind-address: 'here' is not an IP address"),
    ],
)
def test_what_is_wrong_is_said_and_the_code_is_1(
    words: str, said: str, settings_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["run", *words.split()]) == 1
    text = capsys.readouterr().err
    assert text.startswith("stowplan: ")
    assert said in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--master=ftp://nonsense", "'ftp://nonsense' is not the URL of an API server"),
        ("--kubeconfig=/no/kubeconfig", "/no/kubeconfig: No such file or directory"),
        ("--master=http://h --leader-elect-retry-period=9s", "must be longer than"),
        ("--master=http://h --shadow --tls-cert-file=/no/c --tls-private-key-file=/no/k", "/no/c"),
    ],
)
def test_what_shows_only_at_the_start_is_a_sentence_too(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    ended = subprocess.run(
        [sys.executable, "-m", "stowplan", "run", "--secure-port=1", *words.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("stowplan: ")
    assert said in last
    assert "Traceback" not in ended.stderr


def test_a_plugin_that_cannot_be_built_is_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(self: NodeName, args: object, handle: object) -> None:
        raise OSError("no such table")

    monkeypatch.setattr(NodeName, "__init__", fails)
    assert entry.main(["run", "--master=http://h", f"--cert-dir={tmp_path}", "--secure-port=0"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "stowplan: plugin NodeName cannot be built for profile default-scheduler (OSError: no such table); "
        "correct it or take it out of the profile"
    )


def test_everything_about_the_server(settings_of: Any, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("PEM")
    server = settings_of(
        f"--secure-port=1234 --bind-address=127.0.0.1 --client-ca-file={authority} "
        f"--requestheader-client-ca-file={authority} --requestheader-allowed-names=a,b "
        "--requestheader-username-headers=X-User --authorization-always-allow-paths=/open "
        "--authentication-token-webhook-cache-ttl=3s --authorization-webhook-cache-authorized-ttl=4s "
        "--authorization-webhook-cache-unauthorized-ttl=5s --authentication-skip-lookup "
        "--tls-sni-cert-key=/c,/k:a.test,*.b.test --tls-min-version=VersionTLS13"
    ).server
    assert (server.address, server.port) == ("127.0.0.1", 1234)
    assert server.authorities.clients == "PEM"
    assert server.authorities.front_proxies.allowed_names == {"a", "b"}
    assert server.authorities.front_proxies.user == ("x-user",)
    assert server.always_allowed == ("/open",)
    assert (server.token_seconds, server.allowed_seconds, server.denied_seconds) == (3, 4, 5)
    assert not server.look_up_authorities
    assert server.certificates.by_name[0].names == ("a.test", "*.b.test")
    assert settings_of("--secure-port=0").server is None


def test_the_configuration_can_be_written_and_read_again(settings_of: Any, tmp_path: Path) -> None:
    file = tmp_path / "written.yaml"
    assert entry.main(["run", f"--write-config-to={file}", "--leader-elect=false"]) == 0
    assert "pluginConfig" in file.read_text()
    again = settings_of(f"--config={file}")
    assert not again.configuration.leader_election.leader_elect
    assert again.profiles == settings_of("--leader-elect=false").profiles


def test_help_and_version_come_at_once_and_load_nothing_heavy() -> None:
    script = textwrap.dedent("""
        import sys
        from stowplan.cli.main import main
        code = main(["run", sys.argv[1]])
        print("LOADED", sorted({"numpy", "prometheus_client", "ssl"} & set(sys.modules)), code)
    """)
    for word, said in (
        ("--help", "--authorization-always-allow-paths strings"),
        ("--version", "Kubernetes v1.36"),
    ):
        environment = {**os.environ, "COLUMNS": "100"}
        shown = subprocess.run(
            [sys.executable, "-c", script, word], capture_output=True, text=True, check=True, env=environment
        ).stdout
        assert said in shown
        assert shown.endswith("LOADED [] 0\n")


@pytest.mark.control_plane
def test_every_flag_of_kube_scheduler_is_known() -> None:
    program = f"{binaries.folder()}/kube-scheduler"
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    theirs = {
        line.split("--", 1)[1].split()[0]
        for line in text.splitlines()
        if line.lstrip()[:2] in ("--", "-v", "-h")
    }
    ours = {line.split("--", 1)[1].split()[0] for line in RUN_FLAGS.help("").splitlines() if "  --" in line}
    ours |= {"v", "help"}
    assert len(theirs) > 60
    assert theirs - ours == set()
