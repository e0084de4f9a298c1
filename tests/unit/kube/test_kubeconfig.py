"""From files and surroundings to a server and a user of it."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from stowplan.kube.access import Access
from stowplan.kube.credentials import FileCredentials
from stowplan.kube.errors import CredentialsError
from stowplan.kube.execplugin import ExecCredentials
from stowplan.kube.kubeconfig import KubeconfigError, in_cluster, load_access
from stowplan.kube.proxies import proxy_in
from stowplan.kube.tls import make_context
from tests.unit.kube.authority import Authority

SECRET = "s3cr3t-t0ken"
_AUTHORITY = Authority()
PEM = _AUTHORITY.pem.decode()
ME, ME_LATER = _AUTHORITY.issue("me"), _AUTHORITY.issue("me")


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def config(user: Any = None, cluster: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
    } | more


def write(folder: Path, content: Any, name: str = "config") -> str:
    path = folder / name
    path.write_bytes(
        content if isinstance(content, bytes) else yaml.safe_dump(content, allow_unicode=True).encode()
    )
    return str(path)


def load(folder: Path, content: Any, **options: Any) -> Access:
    return load_access(write(folder, content), environ={}, **options)


def test_server_authority_token_and_namespace(tmp_path: Path) -> None:
    content = config({"token": SECRET}, {"certificate-authority-data": b64(PEM), "tls-server-name": "kube"})
    access = load(tmp_path, content)
    assert (access.server, access.namespace) == ("https://10.0.0.1:6443", "shop")
    assert (access.trust.authorities, access.trust.server_name, access.trust.insecure) == (PEM, "kube", False)
    assert access.credentials.current() == f"Authorization: Bearer {SECRET}\r\n".encode()
    assert access.credentials.certificate() is None
    assert SECRET not in repr(access)


def test_nulls_and_what_is_not_known_do_no_harm(tmp_path: Path) -> None:
    content = config({"token": None, "new-field": 1}, {"proxy-url": None}, preferences={}, extensions=None)
    assert load(tmp_path, content).credentials.current() == b""


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "ca.pem").write_text(PEM)
    (folder / "me.crt").write_bytes(ME.certificate)
    (folder / "me.key").write_bytes(ME.key)
    content = config(
        {"client-certificate": "me.crt", "client-key": "me.key"}, {"certificate-authority": "ca.pem"}
    )
    access = load(folder, content)
    assert access.trust.authorities == PEM
    assert access.credentials.certificate() == ME
    (folder / "me.crt").write_bytes(ME_LATER.certificate)
    (folder / "me.key").write_bytes(ME_LATER.key)
    assert access.credentials.certificate() == ME_LATER


def test_certificates_can_stand_in_the_file(tmp_path: Path) -> None:
    user = {"client-certificate-data": b64(ME.certificate), "client-key-data": b64(ME.key)}
    access = load(tmp_path, config(user))
    assert access.credentials.certificate() == ME
    assert "KEY" not in repr(access.credentials.certificate())


def test_a_bundle_of_authorities_may_have_comments_in_any_language(tmp_path: Path) -> None:
    bundle = "# Główny urząd\n" + PEM
    for cluster in ({"certificate-authority": "ca.pem"}, {"certificate-authority-data": b64(bundle)}):
        (tmp_path / "ca.pem").write_text(bundle)
        access = load(tmp_path, config(cluster=cluster))
        (authority,) = make_context(access.trust, None).get_ca_certs()
        assert "stowplan test clients" in str(authority["subject"])


def test_a_token_file_goes_before_a_token_and_is_read_again(tmp_path: Path) -> None:
    now = [0.0]
    token = tmp_path / "token"
    before = load(tmp_path, config({"token": "other", "tokenFile": "token"}))
    assert before.credentials.current() == b"Authorization: Bearer other\r\n"
    token.write_text("one\n")
    assert before.credentials.current() == b"Authorization: Bearer one\r\n"
    access = load(tmp_path, config({"token": "other", "tokenFile": "token"}), clock=lambda: now[0])

    def current() -> bytes | None:
        return access.credentials.current()

    assert current() == b"Authorization: Bearer one\r\n"
    token.write_text("two")
    now[0] = 59.0
    assert current() == b"Authorization: Bearer one\r\n"
    now[0] = 60.0
    assert current() == b"Authorization: Bearer two\r\n"
    token.write_text("three")
    access.credentials.reject()
    assert current() == b"Authorization: Bearer three\r\n"
    token.unlink()  # as it is being replaced
    now[0] = 200.0
    assert current() == b"Authorization: Bearer three\r\n"
    token.write_text("")
    assert current() == b"Authorization: Bearer three\r\n"
    token.write_text("four")
    assert current() == b"Authorization: Bearer four\r\n"


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = FileCredentials(lambda: 0.0, token_file=tmp_path / "missing")
    with pytest.raises(CredentialsError, match="missing: No such file"):
        missing.current()
    (tmp_path / "empty").write_text("")
    with pytest.raises(CredentialsError, match="empty is empty"):
        FileCredentials(lambda: 0.0, token_file=tmp_path / "empty").current()


def test_names_and_passwords_still_work(tmp_path: Path) -> None:
    access = load(tmp_path, config({"username": "jane", "password": "pass:word"}))
    assert access.credentials.current() == b"Authorization: Basic " + b64("jane:pass:word").encode() + b"\r\n"


def test_acting_as_somebody_else(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-uid": "42",
        "as-groups": ["ops", "dev"],
        "as-user-extra": {"Example.com/Scope": ["a", "b"]},
    }
    lines = load(tmp_path, config(user)).header_lines("test").decode().split("\r\n")
    assert [line for line in lines if line.startswith("Imp")] == [
        "Impersonate-User: jane",
        "Impersonate-Uid: 42",
        "Impersonate-Group: ops",
        "Impersonate-Group: dev",
        "Impersonate-Extra-example.com%2Fscope: a",
        "Impersonate-Extra-example.com%2Fscope: b",
    ]


def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    content = config(
        contexts=[
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "d"}},
        ],
        clusters=[
            {"name": "c", "cluster": {"server": "https://c"}},
            {"name": "d", "cluster": {"server": "https://d", "insecure-skip-tls-verify": True}},
        ],
    )
    assert load(tmp_path, content).server == "https://c"
    there = load(tmp_path, content, context="there")
    assert (there.server, there.trust.insecure, there.credentials.current()) == ("https://d", True, b"")
    assert load(tmp_path, content, master="https://e").server == "https://e"


def test_several_files_are_one(tmp_path: Path) -> None:
    one = write(tmp_path, config({"token": "one"}), "one")
    other = config({"token": "two"}, **{"current-context": "elsewhere"})
    other["users"].append({"name": "v", "user": {"token": "v"}})
    other["contexts"].append({"name": "v", "context": {"cluster": "c", "user": "v"}})
    two = write(tmp_path, other, "two")
    environ = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), one, two])}
    assert load_access(environ=environ).credentials.current() == b"Authorization: Bearer one\r\n"
    assert load_access(environ=environ, context="v").credentials.current() == b"Authorization: Bearer v\r\n"


def test_home_comes_last_and_a_pod_before_it(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", config())
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(SECRET)
    (account / "ca.crt").write_text(PEM)
    (account / "namespace").write_text("kube-system\n")
    home = {"HOME": str(tmp_path)}
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", **home}
    assert load_access(environ=home).server == "https://10.0.0.1:6443"
    access = load_access(environ=pod, service_account=account)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "kube-system")
    assert access.trust.authorities == PEM
    assert access.credentials.current() == f"Authorization: Bearer {SECRET}\r\n".encode()
    assert load_access(environ=pod, master="http://127.0.0.1:8001").server == "http://127.0.0.1:8001"
    (account / "ca.crt").write_text("no PEM")
    with pytest.raises(KubeconfigError, match=r"account/ca\.crt: the certificate authority cannot be used"):
        load_access(environ=pod, service_account=account)
    with pytest.raises(KubeconfigError, match="this is no pod"):
        in_cluster({})
    with pytest.raises(KubeconfigError, match=r"no API server is known: .*--kubeconfig"):
        load_access(environ={"HOME": str(tmp_path / "nowhere")})


def with_user(**user: Any) -> dict[str, Any]:
    return config({name.replace("_", "-"): value for name, value in user.items()})


EXEC = {"command": "get-token", "apiVersion": "client.authentication.k8s.io/v1"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [", "config: YAML: line"),
        (b"- 1", "a document is list"),
        (b"", "current-context is not set"),
        (b"a: 1\n---\nb: 2\n", "more than one YAML document"),
        (config(**{"current-context": "x"}), 'context "x" does not exist'),
        (config(clusters=[]), 'contexts[here].context.cluster: cluster "c" does not exist'),
        (config(users=[]), 'contexts[here].context.user: user "u" does not exist'),
        (
            config(users=[{"name": "u", "user": {"token": [SECRET]}}]),
            "users[0].user.token: Expected str, got",
        ),
        (config(cluster={"server": ""}), "clusters[c].cluster.server: is not set"),
        (config(cluster={"proxy-url": "socks5://x:1"}), "cluster.proxy-url: a proxy with socks5:// is not"),
        (config(cluster={"certificate-authority-data": "%"}), "certificate-authority-data: is not base64"),
        (config(cluster={"certificate-authority": "no.pem"}), "certificate-authority: "),
        (
            config(cluster={"certificate-authority-data": b64("no PEM")}),
            "clusters[c].cluster: the certificate authority cannot be used: ",
        ),
        (
            with_user(client_certificate_data=b64(ME.certificate), client_key_data=b64(ME_LATER.key)),
            "users[u].user: the client certificate or its key cannot be used: ",
        ),
        (
            with_user(client_certificate_data=b64(ME.certificate), client_key_data=b64(SECRET)),
            "users[u].user: the client certificate or its key cannot be used: ",
        ),
        (
            config(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": b64(PEM)}),
            "insecure-skip-tls-verify: cannot be true with",
        ),
        (with_user(client_certificate_data=b64("x")), "users[u].user.client-key-data: is not set"),
        (with_user(client_certificate="x.crt"), "users[u].user.client-key: is not set"),
        (with_user(client_certificate="x.crt", client_key="x.key"), "client certificate: "),
        (with_user(client_key_data="%", client_certificate_data=b64("x")), "client-key-data: is not base64"),
        (with_user(token=SECRET + "\x07"), "users[u].user.token: the token has characters"),
        (with_user(auth_provider={"name": "gcp"}), "auth-provider: is not supported any more"),
        (with_user(as_groups=["ops"]), "users[u].user.as: is not set, but"),
        (with_user(exec={}), "exec.command: is not set"),
        (with_user(exec=EXEC | {"apiVersion": "v1alpha1"}), "exec.apiVersion: must be one of"),
        (with_user(exec=EXEC | {"interactiveMode": "Always"}), "exec.interactiveMode: is Always"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_without_secrets(
    tmp_path: Path, content: Any, said: str
) -> None:
    with pytest.raises(KubeconfigError, match=re.escape(said)) as wrong:
        load(tmp_path, content)
    assert str(tmp_path / "config") in str(wrong.value)
    assert SECRET not in str(wrong.value)


@pytest.mark.parametrize(
    "server", ["ftp://x", "https://", "https://h:port", "https://h:99999", "https://[::1"]
)
def test_what_is_not_a_server_s_url_is_shown(tmp_path: Path, server: str) -> None:
    for content, more in ((config(cluster={"server": server}), {}), (config(), {"master": server})):
        said = f"'{server}' is not the URL of an API server"
        with pytest.raises(KubeconfigError, match=re.escape(said)):
            load(tmp_path, content, **more)


def test_a_server_without_a_scheme_is_reached_as_what_is_known_of_it_says(tmp_path: Path) -> None:
    assert load_access(master="127.0.0.1:8080", environ={}).server == "http://127.0.0.1:8080"
    cluster = {"server": "10.0.0.1:6443", "certificate-authority-data": b64(PEM)}
    assert load(tmp_path, config(cluster=cluster)).server == "https://10.0.0.1:6443"


def test_a_password_in_the_server_s_url_is_refused_and_not_shown(tmp_path: Path) -> None:
    url = f"https://me:{SECRET}@10.0.0.1"
    for content, more in ((config(cluster={"server": url}), {}), (config(), {"master": url})):
        with pytest.raises(KubeconfigError, match="has a user in it") as wrong:
            load(tmp_path, content, **more)
        assert SECRET not in str(wrong.value)


def test_a_password_that_yaml_takes_for_something_else_is_not_shown(tmp_path: Path) -> None:
    for text in (f"!{SECRET}", f"*{SECRET}", f"@{SECRET}", f'"{SECRET}', f"{SECRET}: x", f"%{SECRET}"):
        content = f"users:\n- name: u\n  user:\n    password: {text}\n".encode()
        with pytest.raises(KubeconfigError, match=r"YAML: line \d: ") as wrong:
            load(tmp_path, content)
        assert SECRET not in str(wrong.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="missing: No such file"):
        load_access(str(tmp_path / "missing"))


# Exec plugins


def plugin(folder: Path, script: str, **more: Any) -> ExecCredentials:
    path = folder / "plugin"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o700)
    user = {"exec": EXEC | {"command": "./plugin", "env": [{"name": "EXTRA", "value": "more"}]} | more}
    credentials = load(folder, config(user, {"certificate-authority-data": b64(PEM)})).credentials
    assert isinstance(credentials, ExecCredentials)
    return credentials


def answer(**status: Any) -> str:
    said = {"kind": "ExecCredential", "apiVersion": EXEC["apiVersion"], "status": status}
    return "cat <<'END'\n" + msgspec.json.encode(said).decode() + "\nEND\n"


def test_a_plugin_gives_a_token_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    script = f"echo $1 $EXTRA >> {tmp_path}/ran\n" + answer(
        token=SECRET, expirationTimestamp="2030-01-01T00:00:00Z"
    )
    credentials = plugin(tmp_path, script, args=["hello"])
    end, now = 1893456000.0, [0.0]
    credentials._now = lambda: now[0]

    async def main() -> None:
        before = credentials.current()
        await asyncio.gather(credentials.renew(), credentials.renew())
        assert (before, credentials.current()) == (None, f"Authorization: Bearer {SECRET}\r\n".encode())
        assert (tmp_path / "ran").read_text() == "hello more\n"
        now[0] = end - 11
        assert credentials.current() is not None
        now[0] = end - 9
        assert credentials.current() is None
        now[0] = 0.0
        await credentials.renew()
        credentials.reject()
        assert credentials.current() is None
        await credentials.renew()
        assert (tmp_path / "ran").read_text() == "hello more\n" * 3

    asyncio.run(main())


@pytest.mark.parametrize("beside", [{"token": SECRET}, {"tokenFile": "token"}, {"username": "me"}])
def test_a_plugin_is_not_asked_where_there_is_a_token_or_a_name(
    tmp_path: Path, beside: dict[str, str]
) -> None:
    (tmp_path / "token").write_text(SECRET)
    user = {"exec": EXEC | {"command": "./not-installed"}} | beside
    assert (
        load(tmp_path, config(user)).credentials.current()
        == load(tmp_path, config(beside)).credentials.current()
    )


def test_a_plugin_gives_a_certificate_and_is_told_about_the_cluster(tmp_path: Path) -> None:
    script = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n' + answer(
        clientCertificateData="cert", clientKeyData="key"
    )
    credentials = plugin(tmp_path, script, provideClusterInfo=True)
    asyncio.run(credentials.renew())
    assert credentials.current() == b""
    assert credentials.certificate() == (b"cert", b"key")
    assert msgspec.json.decode((tmp_path / "info").read_bytes()) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": b64(PEM)},
        },
    }


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo who are you >&2; exit 3", "plugin: it ended with code 3: who are you"),
        ("exit 1", "code 1: and said nothing"),
        (f"echo '{{\"token\": {SECRET}'", "is not an ExecCredential in JSON"),
        ("echo '{}'", "did not print an ExecCredential of client.authentication.k8s.io/v1"),
        (answer(), "neither a token nor a client certificate"),
        (answer(clientKeyData=SECRET), "a key without a certificate"),
        (answer(token=SECRET + "\n"), "characters that cannot stand in a header"),
    ],
)
def test_a_plugin_that_fails_is_quoted_only_with_its_complaint(
    tmp_path: Path, script: str, said: str
) -> None:
    credentials = plugin(tmp_path, script)
    with pytest.raises(CredentialsError, match=re.escape(said)) as wrong:
        asyncio.run(credentials.renew())
    assert SECRET not in str(wrong.value)


def test_a_plugin_that_is_not_installed_comes_with_its_hint(tmp_path: Path) -> None:
    user = {"exec": EXEC | {"command": "surely-not-installed", "installHint": "See example.com."}}
    credentials = load(tmp_path, config(user)).credentials
    said = "exec plugin surely-not-installed: it cannot be started: No such file or directory. See example"
    with pytest.raises(CredentialsError, match=said):
        asyncio.run(credentials.renew())


@pytest.mark.parametrize(
    "script", ["exec sleep 600", "sleep 600; echo", "sleep 600 &"], ids=["itself", "waiting", "left behind"]
)
def test_a_plugin_that_hangs_is_ended_with_all_it_started(tmp_path: Path, script: str) -> None:
    credentials = plugin(tmp_path, script)
    credentials._timeout = 0.05

    async def main() -> None:
        async with asyncio.timeout(10):
            with pytest.raises(CredentialsError, match="did not end within"):
                await credentials.renew()

    asyncio.run(main())


# Proxies


@pytest.mark.parametrize(
    ("server", "exceptions", "used"),
    [
        ("https://10.0.0.1", "", True),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost", "", False),
        ("http://10.0.0.1", "", False),
        ("https://10.0.0.1", "*", False),
        ("https://10.0.0.1", "10.0.0.0/8", False),
        ("https://10.0.0.1", "192.168.0.0/16, 10.0.0.1", False),
        ("https://10.0.0.1:6443", "10.0.0.1:6443", False),
        ("https://10.0.0.1:6443", "10.0.0.1:443", True),
        ("https://kube.example.com", "example.com", False),
        ("https://kube.example.com", ".example.com", False),
        ("https://kube.example.com", "*.example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://badexample.com", "example.com", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
    ],
)
def test_the_environment_names_a_proxy_with_exceptions(server: str, exceptions: str, used: bool) -> None:
    environ = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": exceptions}
    assert proxy_in(environ, server) == ("http://proxy:3128" if used else "")


def test_the_kubeconfig_s_proxy_goes_first(tmp_path: Path) -> None:
    content = config(cluster={"proxy-url": f"http://me:{SECRET}@proxy.example.com:3128"})
    environ = {"https_proxy": "other:3128"}
    access = load_access(write(tmp_path, content), environ=environ)
    assert repr(access.proxy) == "Proxy(proxy.example.com:3128)"
    assert SECRET not in repr(access)
    access = load_access(write(tmp_path, config()), environ=environ)
    assert repr(access.proxy) == "Proxy(other:3128)"
    with pytest.raises(KubeconfigError, match=r"the proxy that the environment names: .*https:// is not"):
        load_access(write(tmp_path, config()), environ={"HTTPS_PROXY": "https://proxy"})
