"""The certificates that the server shows, and whom it believes: from files, reloaded when they change, or
made in memory."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

from stowplan.kube.tls import ClientCertificate, load_certificate

log = logging.getLogger(__name__)

_LIFETIME = datetime.timedelta(days=365)

VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
}
"""Go's names of what OpenSSL can be told to use. The suites of TLS 1.3 are always on, in Go as here."""
_ALWAYS_ON = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


def cipher_list(names: Iterable[str]) -> str:
    """OpenSSL's list for Go's names; a ValueError names what is not known."""
    chosen = []
    for name in names:
        if name in _SUITES:
            chosen.append(_SUITES[name])
        elif name not in _ALWAYS_ON:
            raise ValueError(
                f"cipher suite {name} is not supported; supported are {', '.join(sorted(_SUITES))}"
            )
    return ":".join(chosen)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key in files, and the names it is for (none: those of the certificate)."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServingSettings:
    """What the command line says about TLS."""

    pair: Pair | None = None
    """None: self-signed, in memory."""
    by_name: tuple[Pair, ...] = ()
    """Certificates for certain names (SNI)."""
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: str = ""


_State: TypeAlias = tuple[tuple[int, int, int], ...]


class ServingCertificates:
    """Makes the context for the next connection. Files are looked at each time: that costs two system calls,
    and a rotated certificate is used at once."""

    def __init__(self, settings: ServingSettings) -> None:
        """Raises OSError or ValueError when the certificates cannot be used."""
        self._settings = settings
        self._made = None if settings.pair is not None else self_signed()
        self._authorities = ""
        self._state = self._look()
        self._context = self._make()

    def trust(self, authorities: str) -> None:
        """Clients may show certificates of these authorities (PEM)."""
        if authorities != self._authorities:
            before, self._authorities = self._authorities, authorities
            try:
                self._context = self._make()
            except ValueError:
                self._authorities = before
                raise

    def context(self) -> ssl.SSLContext:
        state = self._look()
        if state != self._state:
            self._state = state
            try:
                self._context = self._make()
            except (OSError, ValueError) as problem:
                log.error("the serving certificate changed, but the new one cannot be used: %s", problem)
            else:
                log.info("the serving certificate was reloaded")
        return self._context

    def _files(self) -> list[Path]:
        pairs = [pair for pair in (self._settings.pair, *self._settings.by_name) if pair is not None]
        return [path for pair in pairs for path in (pair.certificate, pair.key)]

    def _look(self) -> _State:
        state = []
        for path in self._files():
            try:
                seen = path.stat()
            except OSError:
                state.append((0, 0, 0))
            else:
                state.append((seen.st_mtime_ns, seen.st_size, seen.st_ino))
        return tuple(state)

    def _make(self) -> ssl.SSLContext:
        context = self._plain()
        if self._settings.pair is not None:
            load_pair(context, self._settings.pair)
        else:
            assert self._made is not None
            load_certificate(context, self._made)
        if self._settings.by_name:
            self._choose_by_name(context)
        return context

    def _plain(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._settings.min_version
        if self._settings.ciphers:
            context.set_ciphers(self._settings.ciphers)
        context.set_alpn_protocols(["http/1.1"])
        if self._authorities:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an authority may be an intermediate one
            try:
                context.load_verify_locations(cadata=self._authorities)
            except ssl.SSLError as problem:
                raise ValueError(f"the client CA cannot be used: {problem.reason or problem}") from None
        return context

    def _choose_by_name(self, context: ssl.SSLContext) -> None:
        choices: list[tuple[tuple[str, ...], ssl.SSLContext]] = []
        for pair in self._settings.by_name:
            other = self._plain()
            load_pair(other, pair)
            choices.append((pair.names or names_of(pair.certificate.read_bytes()), other))

        def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            for exact in (True, False):
                for names, other in choices:
                    if name and any(_matches(name, wanted, exact) for wanted in names):
                        connection.context = other
                        return

        context.sni_callback = choose


def _matches(name: str, wanted: str, exact: bool) -> bool:
    """Names that are written out count for more than `*.example.com`, whose star stands for one label."""
    if exact:
        return name == wanted
    return wanted.startswith("*.") and name.count(".") == wanted.count(".") and fnmatchcase(name, wanted)


def load_pair(context: ssl.SSLContext, pair: Pair) -> None:
    """A ValueError or OSError says what is wrong, and with which file."""
    for path in (pair.certificate, pair.key):
        try:
            path.open("rb").close()
        except OSError as problem:
            raise OSError(f"{path}: {problem.strerror}") from None
    try:
        context.load_cert_chain(pair.certificate, pair.key, password=lambda: b"")
    except ssl.SSLError as problem:
        reason = problem.reason or "one of them is not PEM, or the key is encrypted"
        raise ValueError(
            f"{pair.certificate} and {pair.key} are no certificate with its key: {reason}"
        ) from None


def self_signed(
    names: Sequence[str] = ("localhost",), addresses: Sequence[str] = ("127.0.0.1",)
) -> ClientCertificate:
    """A new certificate and its key, as PEM: TLS for those who do not check, such as the kubelet's probes."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{names[0]}@{os.getpid()}")])
    now = datetime.datetime.now(datetime.UTC)
    subjects = x509.SubjectAlternativeName(
        [
            *(x509.DNSName(one) for one in names),
            *(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(subjects, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ClientCertificate(certificate.public_bytes(serialization.Encoding.PEM), pem)


def in_folder(folder: Path, name: str) -> Pair:
    """The pair `NAME.crt` and `NAME.key` of a folder; it is made if it is not there (`--cert-dir`)."""
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    if not (pair.certificate.exists() and pair.key.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = self_signed()
        pair.certificate.write_bytes(certificate)
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(key)
    return pair


def names_of(certificate: bytes) -> tuple[str, ...]:
    """The names that a certificate (PEM) is for."""
    from cryptography import x509

    parsed = x509.load_pem_x509_certificate(certificate)
    try:
        found = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = parsed.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return tuple(str(name.value) for name in names)
    addresses = found.get_values_for_type(x509.IPAddress)
    return (*found.get_values_for_type(x509.DNSName), *(str(address) for address in addresses))
