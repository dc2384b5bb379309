"""Files that cannot be used are named with their flag and a remedy."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from smgproxy.tls.certificates import TlsFileError, not_after
from smgproxy.tls.contexts import server_credentials, worker_credentials
from smgproxy.tls.options import TlsOptions
from tests.fakes.certificates import EXPIRED, Authority, Pair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALPN = ["http/1.1"]
DER_FREE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
LOCKED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n"
LOCKED_OLD = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
BROKEN_KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("server")


def server(pair: Pair, *client_cas: str) -> TlsOptions:
    return TlsOptions(
        tls_cert_path=pair.cert, tls_key_path=pair.key, tls_client_ca_paths=client_cas
    )


def fault(options: TlsOptions) -> str:
    with pytest.raises(TlsFileError) as refused:
        server_credentials(options, ALPN, NOW)
        worker_credentials(options, ALPN, NOW)
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_without_a_certificate_http_stays_plain() -> None:
    assert server_credentials(TlsOptions(), ALPN, NOW) is None


def test_clients_are_asked_for_a_certificate_only_if_wanted(
    authority: Authority, pair: Pair
) -> None:
    for cas, mode in (((), ssl.CERT_NONE), ((authority.path,), ssl.CERT_REQUIRED)):
        made = server_credentials(server(pair, *cas), ALPN, NOW)
        assert made is not None and made.context.verify_mode is mode


def test_weak_things_are_off(pair: Pair) -> None:
    made = server_credentials(server(pair), ALPN, NOW)
    assert made is not None
    for context in (made.context, worker_credentials(TlsOptions(), ALPN, NOW).context):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_COMPRESSION
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert all(
            one["aead"] and one["name"].startswith(("TLS_", "ECDHE-"))
            for one in context.get_ciphers()
        )


def test_workers_are_checked_by_name_and_by_the_cas_of_the_system_too(
    authority: Authority,
) -> None:
    options = TlsOptions(ca_cert_paths=(authority.path,))
    context = worker_credentials(options, ALPN, NOW).context
    assert context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED
    without = worker_credentials(TlsOptions(), ALPN, NOW).context
    more = context.cert_store_stats()["x509_ca"] - without.cert_store_stats()["x509_ca"]
    assert more == 1


@pytest.mark.parametrize(
    ("which", "text", "why"),
    [
        ("cert", None, "cannot be read: No such file or directory"),
        ("key", None, "cannot be read: No such file or directory"),
        ("cert", "", "holds no PEM certificate"),
        ("cert", "\x30\x82", "openssl x509 -inform der"),
        ("cert", DER_FREE, "holds a damaged certificate"),
        ("key", "", "holds no PEM private key"),
        ("key", LOCKED, "is protected by a password"),
        ("key", LOCKED_OLD, "is protected by a password"),
        ("key", BROKEN_KEY, "holds no usable private key"),
        ("cert", "x" * (5 << 20), "is too large"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    which: str, text: str | None, why: str, tmp_path: Path, pair: Pair
) -> None:
    path = tmp_path / "file.pem"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    paths = {"cert": pair.cert, "key": pair.key, which: str(path)}
    told = fault(server(Pair(**paths)))
    assert told.startswith(f"--tls-{which}-path: {path} ")
    assert why in told


def test_a_folder_is_no_certificate(tmp_path: Path, pair: Pair) -> None:
    assert "Is a directory" in fault(server(Pair(str(tmp_path), pair.key)))


def test_a_key_of_another_certificate_is_named(
    authority: Authority, pair: Pair
) -> None:
    other = authority.issue("other")
    told = fault(server(Pair(pair.cert, other.key)))
    assert told.startswith(
        f"--tls-key-path: {other.key} is not the key of the certificate in {pair.cert}"
    )


def test_authorities_that_are_none_are_named(pair: Pair) -> None:
    told = fault(server(pair, pair.key))
    assert told.startswith(
        f"--tls-client-ca-paths: {pair.key} holds no PEM certificate"
    )
    told = fault(TlsOptions(ca_cert_paths=("/nowhere",)))
    assert told.startswith("--ca-cert-paths: /nowhere cannot be read")


def test_the_pair_for_workers_is_checked_too(pair: Pair) -> None:
    options = TlsOptions(client_cert_path=pair.cert, client_key_path=pair.cert)
    assert fault(options).startswith(
        f"--client-key-path: {pair.cert} holds no PEM priv"
    )


def test_a_path_cannot_break_the_line(pair: Pair) -> None:
    assert "a\\nb" in fault(server(Pair("/a\nb", pair.key)))


def test_an_expired_certificate_is_said_and_used(authority: Authority) -> None:
    pair = authority.issue("expired", not_after=EXPIRED)
    made = server_credentials(server(pair), ALPN, NOW)
    assert made is not None
    [warning] = made.warnings
    assert warning.startswith(
        f"--tls-cert-path: the certificate in {pair.cert} expired on 2020-01-02 03:04"
    )


def test_a_certificate_that_is_valid_is_no_news(
    authority: Authority,
) -> None:
    pair = authority.issue("young", not_after=NOW + timedelta(days=1))
    made = server_credentials(server(pair), ALPN, NOW)
    assert made is not None and made.warnings == []
    assert made.expires_at == NOW + timedelta(days=1)


@pytest.mark.parametrize("year", [2030, 2049, 2050, 2099])
def test_dates_of_either_form_are_read(year: int, authority: Authority) -> None:
    end = datetime(year, 3, 4, 5, 6, 7, tzinfo=UTC)
    pair = authority.issue("dated", not_after=end)
    assert not_after(Path(pair.cert).read_text()) == end


@pytest.mark.parametrize("text", ["", DER_FREE, DER_FREE.replace("AAAA", "MIIB")])
def test_what_is_no_certificate_has_no_date(text: str) -> None:
    assert not_after(text) is None
