"""From a kubeconfig, or from what a pod finds around it, to an `Access`.

Errors name the file and the field, never a value: values may be secrets.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from stowplan.kube.access import Access, Impersonation, place_of
from stowplan.kube.credentials import Credentials, FileCredentials, StaticCredentials, basic, bearer
from stowplan.kube.dialing import Proxy, parse_proxy
from stowplan.kube.errors import CredentialsError
from stowplan.kube.execplugin import API_VERSIONS, ExecCredentials, ExecPlugin
from stowplan.kube.proxies import proxy_in
from stowplan.kube.tls import ClientCertificate, Trust, check_certificate, make_context
from stowplan.objects import ObjectError
from stowplan.objects.kinds import without_nulls
from stowplan.objects.manifests import load_documents

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class KubeconfigError(ValueError):
    """The API server cannot be reached with what was given; says what is wrong and where."""


class _Kebab(msgspec.Struct, frozen=True, rename="kebab"):
    def __repr__(self) -> str:  # users hold secrets
        return f"{type(self).__name__}(...)"


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    extension: Any = None


class _Cluster(_Kebab, frozen=True, rename="kebab"):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: tuple[_Named, ...] = ()


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[_Variable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _User(_Kebab, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: Any = None
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}


class _Context(_Kebab, frozen=True, rename="kebab"):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster = _Cluster()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User = _User()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context = _Context()


class _Kubeconfig(_Kebab, frozen=True, rename="kebab"):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


_NamedT = TypeVar("_NamedT", _NamedCluster, _NamedUser, _NamedContext)


def load_access(
    path: str = "",
    *,
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The first of: the kubeconfig at `path`, the server at `master` (which also replaces the server of the
    kubeconfig), the service account of the pod that this runs in, $KUBECONFIG, ~/.kube/config."""
    if path:
        access = _from_files([Path(path)], context, environ, clock)
    elif master:
        access = Access(server=master)
    elif environ.get("KUBERNETES_SERVICE_HOST"):
        access = in_cluster(environ, clock=clock, folder=service_account)
    else:
        access = _from_files(_usual_files(environ), context, environ, clock)
    if master:
        access = replace(access, server=master)
    access = replace(access, server=_complete(access))
    if access.proxy is None and (url := proxy_in(environ, access.server)):
        try:
            access = replace(access, proxy=parse_proxy(url))
        except ValueError as error:
            raise KubeconfigError(f"the proxy that the environment names: {error}") from None
    return access


def _complete(access: Access) -> str:
    """The server's URL, which old unit files have without a scheme."""
    server = access.server
    if "@" in server:  # it would be shown in logs and metrics
        raise KubeconfigError("the URL of the API server has a user in it: who we are belongs into users[]")
    if "://" not in server:
        secure = access.trust != Trust() or access.credentials.certificate() is not None
        server = f"{'https' if secure else 'http'}://{server}"
    try:
        place_of(server)
    except ValueError as error:
        raise KubeconfigError(str(error)) from None
    return server


def in_cluster(
    environ: Mapping[str, str],
    *,
    clock: Callable[[], float] = time.monotonic,
    folder: Path = SERVICE_ACCOUNT,
) -> Access:
    """The API server as a pod finds it. The token is read again and again, because it is rotated."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set. "
            "Name a kubeconfig with --kubeconfig"
        )
    authorities, namespace = folder / "ca.crt", folder / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=FileCredentials(clock, token_file=folder / "token"),
        trust=_checked(Trust(_text(authorities, "the service account")), str(authorities)),
        namespace=_text(namespace, "namespace").strip() if namespace.exists() else "",
    )


def _usual_files(environ: Mapping[str, str]) -> list[Path]:
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    candidates = listed or [Path(environ.get("HOME", "/")) / ".kube" / "config"]
    there = [each for each in candidates if each.exists()]
    if not there:
        raise KubeconfigError(
            f"no API server is known: {os.pathsep.join(map(str, candidates))} does not exist, "
            "and this is no pod. Name a kubeconfig with --kubeconfig"
        )
    return there


def _from_files(
    paths: Iterable[Path], context: str, environ: Mapping[str, str], clock: Callable[[], float]
) -> Access:
    """Of several files, the first that has something of a name wins, as with kubectl."""
    read = [(path, _read(path)) for path in paths]
    chosen = context or next((each.current_context for _, each in read if each.current_context), "")
    files = ", ".join(str(path) for path, _ in read)
    if not chosen:
        raise KubeconfigError(f"{files}: current-context is not set, and no context was named")
    _, found = _find(((path, each.contexts) for path, each in read), chosen, f"{files}: context")
    use = found.context
    where = f"{files}: contexts[{chosen}].context"
    cluster_file, cluster = _find(
        ((path, each.clusters) for path, each in read), use.cluster, f"{where}.cluster: cluster"
    )
    place = _Place(cluster_file, f"clusters[{use.cluster}].cluster")
    trust = place.trust(cluster.cluster)
    proxy = place.proxy(cluster.cluster)
    if not cluster.cluster.server:
        raise place.error("server", "is not set")
    access = Access(server=cluster.cluster.server, trust=trust, proxy=proxy, namespace=use.namespace)
    if not use.user:
        return access
    user_file, user = _find(((path, each.users) for path, each in read), use.user, f"{where}.user: user")
    place = _Place(user_file, f"users[{use.user}].user")
    return replace(
        access,
        credentials=place.credentials(user.user, cluster.cluster, trust, clock),
        impersonation=place.impersonation(user.user),
    )


def _read(path: Path) -> _Kubeconfig:
    text = _text(path, "kubeconfig")
    try:
        documents = list(load_documents(text))
        if len(documents) > 1:
            raise KubeconfigError(f"{path}: holds more than one YAML document")
        return msgspec.convert(without_nulls(documents[0]) if documents else {}, _Kubeconfig)
    except ObjectError as error:
        raise KubeconfigError(f"{path}: {error}") from None
    except msgspec.ValidationError as error:
        message, _, field = str(error).replace("`", "").rpartition(" - at $.")
        raise KubeconfigError(f"{path}: {field}: {message}" if message else f"{path}: {error}") from None


def _find(places: Iterable[tuple[Path, tuple[_NamedT, ...]]], name: str, what: str) -> tuple[Path, _NamedT]:
    for path, entries in places:
        for entry in entries:
            if entry.name == name:
                return path, entry
    raise KubeconfigError(f'{what} "{name}" does not exist')


class _Place:
    """Reads the fields of one entry of one file, and says where something is wrong."""

    def __init__(self, file: Path, entry: str) -> None:
        self._file = file
        self._entry = entry

    def error(self, field: str, problem: str) -> KubeconfigError:
        return KubeconfigError(f"{self._file}: {self._entry}.{field}: {problem}")

    def path(self, name: str) -> Path:
        """Relative names start from the folder of the file that they stand in."""
        return self._file.parent / name

    def data(self, encoded: str, field: str) -> bytes:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise self.error(field, "is not base64") from None

    def trust(self, cluster: _Cluster) -> Trust:
        authorities = ""
        if cluster.certificate_authority_data:
            field = "certificate-authority-data"
            authorities = self.data(cluster.certificate_authority_data, field).decode("ascii", "replace")
        elif cluster.certificate_authority:
            where = f"{self._file}: {self._entry}.certificate-authority"
            authorities = _text(self.path(cluster.certificate_authority), where)
        if cluster.insecure_skip_tls_verify and authorities:
            raise self.error("insecure-skip-tls-verify", "cannot be true with a certificate authority")
        trust = Trust(authorities, cluster.tls_server_name, cluster.insecure_skip_tls_verify)
        return _checked(trust, f"{self._file}: {self._entry}")

    def proxy(self, cluster: _Cluster) -> Proxy | None:
        if not cluster.proxy_url:
            return None
        try:
            return parse_proxy(cluster.proxy_url)
        except ValueError as error:
            raise self.error("proxy-url", str(error)) from None

    def credentials(
        self, user: _User, cluster: _Cluster, trust: Trust, clock: Callable[[], float]
    ) -> Credentials:
        if user.auth_provider is not None:
            raise self.error("auth-provider", "is not supported any more: use an exec plugin")
        if user.exec is not None and not (user.token or user.token_file or user.username):  # as with kubectl
            return ExecCredentials(self._plugin(user.exec, cluster, trust))
        header = b""
        if user.token:
            try:
                header = bearer(user.token.strip())
            except CredentialsError as error:
                raise self.error("token", error.message) from None
        elif user.username and not user.token_file:
            header = basic(user.username, user.password)
        in_files = bool(user.client_certificate and not user.client_certificate_data)
        certificate = None if in_files else self._certificate(user)
        if in_files and user.client_key_data:
            raise self.error("client-key-data", "needs client-certificate-data beside it, not a file")
        if in_files and not user.client_key:
            raise self.error("client-key", "is not set, but client-certificate is")
        credentials = FileCredentials(
            clock,
            token_file=self.path(user.token_file) if user.token_file else None,
            certificate_file=self.path(user.client_certificate) if in_files else None,
            key_file=self.path(user.client_key) if in_files else None,
            header=header,
            certificate=certificate,
        )
        try:
            shown = credentials.certificate()
            if shown is not None:
                check_certificate(shown)
        except (CredentialsError, ValueError) as error:
            raise KubeconfigError(f"{self._file}: {self._entry}: {error}") from None
        return credentials if in_files or user.token_file else StaticCredentials(header, certificate)

    def impersonation(self, user: _User) -> Impersonation:
        extra = tuple(
            (quote(key.lower(), safe="!#$&'*+-.^_`|~"), value)
            for key, values in user.as_user_extra.items()
            for value in values
        )
        if not user.as_ and (user.as_uid or user.as_groups or extra):
            raise self.error("as", "is not set, but what else is said of whom to act as needs it")
        return Impersonation(user.as_, user.as_uid, user.as_groups, extra)

    def _certificate(self, user: _User) -> ClientCertificate | None:
        if not user.client_certificate_data:
            return None
        certificate = self.data(user.client_certificate_data, "client-certificate-data")
        if user.client_key_data:
            return ClientCertificate(certificate, self.data(user.client_key_data, "client-key-data"))
        if not user.client_key:
            raise self.error("client-key-data", "is not set, but client-certificate-data is")
        key = _text(self.path(user.client_key), f"{self._file}: {self._entry}.client-key")
        return ClientCertificate(certificate, key.encode())

    def _plugin(self, plugin: _Exec, cluster: _Cluster, trust: Trust) -> ExecPlugin:
        if not plugin.command:
            raise self.error("exec.command", "is not set")
        if plugin.api_version not in API_VERSIONS:
            raise self.error("exec.apiVersion", f"must be one of {', '.join(API_VERSIONS)}")
        if plugin.interactive_mode == "Always":
            raise self.error("exec.interactiveMode", "is Always, but a scheduler has nobody to ask")
        told: dict[str, Any] | None = None
        if plugin.provide_cluster_info:
            told = {"server": cluster.server}
            if trust.server_name:
                told["tls-server-name"] = trust.server_name
            if trust.insecure:
                told["insecure-skip-tls-verify"] = True
            if trust.authorities:
                authorities = base64.b64encode(trust.authorities.encode()).decode()
                told["certificate-authority-data"] = authorities
            if cluster.proxy_url:
                told["proxy-url"] = cluster.proxy_url
            extension = next((e.extension for e in cluster.extensions if e.name == _EXEC_EXTENSION), None)
            if extension is not None:
                told["config"] = extension
        # A name without a slash is looked up in $PATH; any other is relative to the file that it stands in.
        command = str(self.path(plugin.command)) if "/" in plugin.command else plugin.command
        return ExecPlugin(
            command=command,
            arguments=plugin.args,
            environment={each.name: each.value for each in plugin.env},
            api_version=plugin.api_version,
            cluster=told,
            install_hint=plugin.install_hint,
        )


def _checked(trust: Trust, where: str) -> Trust:
    try:
        make_context(trust, None)
    except ValueError as error:
        raise KubeconfigError(f"{where}: {error}") from None
    return trust


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise KubeconfigError(f"{what}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KubeconfigError(f"{what}: {path}: is not text") from None
