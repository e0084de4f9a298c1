"""Who we are to the API server. Nothing here shows a secret in its repr, nor in an error."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from stowplan.kube.errors import CredentialsError
from stowplan.kube.tls import ClientCertificate

_REREAD = 60.0
"""Seconds after which a token file is read again. The kubelet rotates tokens long before they expire."""


class Credentials(Protocol):
    """What is added to requests and shown in handshakes; it may change over time."""

    def current(self) -> bytes | None:
        """Header lines for the next request; None when `renew` has to be awaited first."""
        ...

    async def renew(self) -> None:
        """Gets what `current` lacks; a CredentialsError says why that failed."""
        ...

    def reject(self) -> None:
        """The server did not accept what `current` gave: get something newer."""
        ...

    def certificate(self) -> ClientCertificate | None:
        """The certificate to show in the next handshake."""
        ...


def bearer(token: str) -> bytes:
    """The header line for a token."""
    return _header("Bearer " + token)


def basic(user: str, password: str) -> bytes:
    """The header line for a name and a password."""
    return _header("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


def _header(value: str) -> bytes:
    # A line end in a token would start a header of somebody else's choosing.
    if not value.isascii() or not value.isprintable():
        raise CredentialsError("the token has characters that cannot stand in a header")
    return b"Authorization: " + value.encode() + b"\r\n"


class StaticCredentials:
    """A header and a certificate that stay as they are; without either, nobody."""

    def __init__(self, header: bytes = b"", certificate: ClientCertificate | None = None) -> None:
        self._header = header
        self._certificate = certificate

    def current(self) -> bytes:
        return self._header

    async def renew(self) -> None:
        """There is nothing newer."""

    def reject(self) -> None:
        """There is nothing newer."""

    def certificate(self) -> ClientCertificate | None:
        return self._certificate


class FileCredentials:
    """A token and a certificate from files that somebody else rotates."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        token_file: Path | None = None,
        certificate_file: Path | None = None,
        key_file: Path | None = None,
        header: bytes = b"",
        certificate: ClientCertificate | None = None,
    ) -> None:
        self._clock = clock
        self._token_file = token_file
        self._certificate_file = certificate_file
        self._key_file = key_file
        self._header = header
        self._certificate = certificate
        self._read_at: float | None = None

    def current(self) -> bytes:
        if self._token_file is None:
            return self._header
        now = self._clock()
        if self._read_at is None or now - self._read_at >= _REREAD:
            self._read_token(now)
        return self._header

    async def renew(self) -> None:
        """Reading is quick enough for `current`."""

    def reject(self) -> None:
        self._read_at = None

    def certificate(self) -> ClientCertificate | None:
        if self._certificate_file is not None and self._key_file is not None:
            try:
                pair = self._certificate_file.read_bytes(), self._key_file.read_bytes()
            except OSError as error:
                raise CredentialsError(f"client certificate: {error.filename}: {error.strerror}") from None
            self._certificate = ClientCertificate(*pair)
        return self._certificate

    def _read_token(self, now: float) -> None:
        assert self._token_file is not None
        try:
            token = self._token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._header:  # the old one may still be good; a file that is being replaced comes back
                return
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise CredentialsError(f"token file {self._token_file}: {why}") from None
        if not token:
            if self._header:
                return
            raise CredentialsError(f"token file {self._token_file} is empty")
        self._header = bearer(token)
        self._read_at = now
