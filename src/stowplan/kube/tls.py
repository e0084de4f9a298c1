"""TLS to the API server: whom to trust, what to show, and sessions that are taken up again."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class ClientCertificate(NamedTuple):
    """A certificate with its key, as PEM. Never shown: it is a credential."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(...)"


@dataclass(frozen=True)
class Trust:
    """How the server is checked."""

    authorities: str = field(default="", repr=False)
    """PEM; empty for those of the system."""
    server_name: str = ""
    """The name to find in the certificate, if it is not the host's."""
    insecure: bool = False
    """Check nothing."""


class ResumingContext(ssl.SSLContext):
    """A client's context that offers the session of an earlier connection, which saves the server the costly
    part of the handshake. asyncio has no parameter for that, so it happens where asyncio comes through."""

    session: ssl.SSLSession | None = None

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        kwargs["session"] = self.session
        return super().wrap_bio(*args, **kwargs)


def make_context(trust: Trust, certificate: ClientCertificate | None) -> ResumingContext:
    """The context for connections to one server; a ValueError says what is wrong."""
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.authorities:
        _load_authorities(context, trust.authorities)
    else:
        context.load_default_certs()
    if certificate is not None:
        load_certificate(context, certificate)
    return context


def check_certificate(certificate: ClientCertificate) -> None:
    """A ValueError says why it cannot be shown to anybody."""
    load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate)


def _load_authorities(context: ssl.SSLContext, authorities: str) -> None:
    plain = authorities.encode("ascii", "replace").decode()  # comments in bundles may be in any language
    try:
        context.load_verify_locations(cadata=plain)
    except ssl.SSLError as error:
        problem = error.reason or "there is no certificate in PEM in it"
        raise ValueError(f"the certificate authority cannot be used: {problem}") from None


def load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """The ssl module reads certificates from files only; this one is in memory and gone when closed."""
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(certificate.certificate.rstrip() + b"\n" + certificate.key)
        file.flush()
        try:
            # Without the callback, OpenSSL would ask for a pass phrase on the terminal.
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)
        except ssl.SSLError as error:
            problem = error.reason or "it is not PEM, or the key is encrypted"
            raise ValueError(f"the client certificate or its key cannot be used: {problem}") from None


def _no_password() -> bytes:
    return b""
