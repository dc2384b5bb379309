"""Flags that mean nothing alone."""

import pytest

from smgproxy.tls.options import TlsOptions

PAIRS = [
    ("tls_cert_path", "--tls-cert-path", "--tls-key-path"),
    ("tls_key_path", "--tls-key-path", "--tls-cert-path"),
    ("client_cert_path", "--client-cert-path", "--client-key-path"),
    ("client_key_path", "--client-key-path", "--client-cert-path"),
]


@pytest.mark.parametrize(("name", "given", "missing"), PAIRS)
def test_a_certificate_needs_its_key_and_the_other_way_round(
    name: str, given: str, missing: str
) -> None:
    with pytest.raises(ValueError) as refused:
        TlsOptions(**{name: "x.pem"})  # type: ignore[arg-type]
    assert str(refused.value) == f"{given}: has no effect alone, add {missing} FILE"


def test_client_certificates_can_be_demanded_over_tls_only() -> None:
    with pytest.raises(ValueError, match="^--tls-client-ca-paths: has no effect"):
        TlsOptions(tls_client_ca_paths=("ca.pem",))


def test_nothing_is_served_over_tls_by_default() -> None:
    options = TlsOptions()
    assert not options.serves_https
    assert not options.demands_client_certificates
    assert not options.names_worker_files
