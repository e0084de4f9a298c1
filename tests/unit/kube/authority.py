"""A certificate authority for client certificates."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.kube.tls import ClientCertificate

_DAY = datetime.timedelta(days=1)


def _name(common: str, organisation: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organisation:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(parts)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


class Authority:
    """Signs who users are: the common name is the user, the organisation the group."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name("stowplan test clients", "")
        self._certificate = self._sign(self._subject, self._key.public_key(), authority=True)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, user: str, group: str = "") -> ClientCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(user, group), key.public_key(), authority=False)
        return ClientCertificate(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, authority: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            builder = builder.add_extension(usage, critical=False)
        return builder.sign(self._key, hashes.SHA256())
