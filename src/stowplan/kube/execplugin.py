"""Credentials from a program that the kubeconfig names (client.authentication.k8s.io).

What the program prints is a credential: it is never logged, and errors tell only what it wrote to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stowplan.kube.credentials import bearer
from stowplan.kube.errors import CredentialsError
from stowplan.kube.tls import ClientCertificate
from stowplan.objects import Record, Time
from stowplan.objects.meta import decode_time

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_TIMEOUT = 60.0
_EARLY = 10.0
"""A credential is renewed this many seconds early, so that no request carries one that just expired."""
_MOST_STDERR = 300
_LAST_WORDS = 1.0


@dataclass(frozen=True)
class ExecPlugin:
    """What to run."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = API_VERSIONS[0]
    cluster: Mapping[str, Any] | None = None
    """What the program is told about the cluster, if it wants to know."""
    install_hint: str = ""


class _Status(Record, frozen=True):
    expiration_timestamp: Time | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(Record, frozen=True):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_ExecCredential, dec_hook=decode_time)


class ExecCredentials:
    """Runs the program when there is no credential yet, when it expired, and when the server refused it."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        wall_clock: Callable[[], float] = time.time,
        timeout: float = _TIMEOUT,
    ) -> None:
        self._plugin = plugin
        self._now = wall_clock
        self._timeout = timeout
        self._header: bytes | None = None
        self._certificate: ClientCertificate | None = None
        self._expires: float | None = None
        self._running = asyncio.Lock()

    def current(self) -> bytes | None:
        if self._expires is not None and self._now() >= self._expires - _EARLY:
            self._header = None
        return self._header

    async def renew(self) -> None:
        async with self._running:
            if self.current() is None:  # else somebody else just ran it
                self._use(await self._run())

    def reject(self) -> None:
        self._header = None

    def certificate(self) -> ClientCertificate | None:
        return self._certificate

    def _use(self, status: _Status) -> None:
        certificate, key = status.client_certificate_data, status.client_key_data
        if bool(certificate) != bool(key):
            raise self._error("it gave a client certificate without its key, or a key without a certificate")
        if not status.token and not certificate:
            raise self._error("it gave neither a token nor a client certificate")
        self._certificate = ClientCertificate(certificate.encode(), key.encode()) if certificate else None
        self._expires = status.expiration_timestamp
        self._header = bearer(status.token) if status.token else b""

    async def _run(self) -> _Status:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        wish = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        told = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(wish).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **plugin.environment, **told},
                start_new_session=True,
            )
        except OSError as error:
            hint = f". {plugin.install_hint}" if plugin.install_hint else ""
            raise self._error(f"it cannot be started: {error.strerror}{hint}") from None
        try:
            async with asyncio.timeout(self._timeout):
                printed, complained = await process.communicate()
        except BaseException as error:
            await _end(process)
            if isinstance(error, TimeoutError):
                raise self._error(f"it did not end within {self._timeout:.0f} s") from None
            raise
        if process.returncode:
            words = " ".join(complained.decode(errors="replace").split())[-_MOST_STDERR:]
            raise self._error(f"it ended with code {process.returncode}: {words or 'and said nothing'}")
        return self._read(printed)

    def _read(self, printed: bytes) -> _Status:
        try:
            said = _decoder.decode(printed)
        except (msgspec.MsgspecError, ValueError):
            raise self._error("what it printed is not an ExecCredential in JSON") from None
        if said.kind != "ExecCredential" or said.api_version != self._plugin.api_version:
            raise self._error(f"it did not print an ExecCredential of {self._plugin.api_version}")
        if said.status is None:
            raise self._error("the ExecCredential that it printed has no status")
        return said.status

    def _error(self, problem: str) -> CredentialsError:
        return CredentialsError(f"exec plugin {self._plugin.command}: {problem}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """With all that it started: whoever has its output still open would be waited for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS):
            await process.communicate()
