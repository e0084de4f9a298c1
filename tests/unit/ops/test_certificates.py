from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from stowplan.ops.certificates import (
    ServingCertificates,
    ServingSettings,
    cipher_list,
    in_folder,
    names_of,
    self_signed,
)


def test_a_self_signed_certificate_is_for_this_machine_only() -> None:
    made = self_signed()
    assert set(names_of(made.certificate)) == {"localhost", "127.0.0.1"}
    assert b"PRIVATE KEY" in made.key
    assert "PRIVATE" not in repr(made)


def test_a_folder_keeps_what_is_in_it(tmp_path: Path) -> None:
    first = in_folder(tmp_path / "certs", "kube-scheduler")
    text = first.certificate.read_bytes()
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert in_folder(tmp_path / "certs", "kube-scheduler") == first
    assert first.certificate.read_bytes() == text


def test_go_names_of_cipher_suites() -> None:
    names = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"]
    assert cipher_list(names) == "ECDHE-RSA-AES128-GCM-SHA256"
    with pytest.raises(ValueError, match="TLS_RSA_WITH_RC4_128_SHA is not supported"):
        cipher_list(["TLS_RSA_WITH_RC4_128_SHA"])


def test_version_and_ciphers_are_as_set() -> None:
    settings = ServingSettings(min_version=ssl.TLSVersion.TLSv1_2, ciphers="ECDHE-ECDSA-AES256-GCM-SHA384")
    context = ServingCertificates(settings).context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    below_tls13 = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert below_tls13 == ["ECDHE-ECDSA-AES256-GCM-SHA384"]


def test_an_authority_that_cannot_be_used_changes_nothing() -> None:
    certificates = ServingCertificates(ServingSettings())
    before = certificates.context()
    with pytest.raises(ValueError, match="client CA cannot be used"):
        certificates.trust("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----")
    assert certificates.context() is before
    assert before.verify_mode == ssl.CERT_NONE
