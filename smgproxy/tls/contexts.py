"""The two contexts: what the gateway shows and believes as a server and as a client.

Both are made anew for each reload and never changed: connections that are open keep
the one they began with, and session tickets of an old one are worth nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import datetime

from smgproxy.tls.certificates import (
    TlsFileError,
    check_key,
    not_after,
    read_certificates,
)
from smgproxy.tls.options import TlsOptions

# For TLS 1.2: forward secrecy and authenticated encryption only, which is also what
# HTTP/2 leaves over (RFC 9113 appendix A). TLS 1.3 has nothing else.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Credentials:
    """A context, and what there is to say about the files it was made of."""

    __slots__ = ("context", "warnings", "expires_at")

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.warnings: list[str] = []
        self.expires_at: datetime | None = None  # of the certificate that is shown


def server_credentials(
    options: TlsOptions, alpn: Sequence[str], now: datetime
) -> Credentials | None:
    """What clients meet; None when the gateway serves plain HTTP.

    ``alpn`` lists the protocols it offers, the best one first. Raises TlsFileError.
    """
    if options.tls_cert_path is None or options.tls_key_path is None:
        return None
    made = Credentials(_context(ssl.PROTOCOL_TLS_SERVER, alpn))
    cert, key = options.tls_cert_path, options.tls_key_path
    _load_pair(made, ("--tls-cert-path", cert), ("--tls-key-path", key), now)
    if options.tls_client_ca_paths:
        _load_authorities(made, "--tls-client-ca-paths", options.tls_client_ca_paths)
        made.context.verify_mode = ssl.CERT_REQUIRED
    return made


def worker_credentials(
    options: TlsOptions, alpn: Sequence[str], now: datetime
) -> Credentials:
    """What ``https://`` workers meet. Raises TlsFileError.

    A worker must be certified for the name or address in its URL, by a CA of the
    system's or of --ca-cert-paths.
    """
    made = Credentials(_context(ssl.PROTOCOL_TLS_CLIENT, alpn))
    made.context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    _load_authorities(made, "--ca-cert-paths", options.ca_cert_paths)
    if options.client_cert_path is not None and options.client_key_path is not None:
        cert, key = options.client_cert_path, options.client_key_path
        _load_pair(made, ("--client-cert-path", cert), ("--client-key-path", key), now)
    return made


def _context(kind: int, alpn: Sequence[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Compression gives secrets away (CRIME); renegotiation lets a peer make us
    # compute, and would let a write wait for a read.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(list(alpn))
    return context


def _load_pair(
    made: Credentials, cert: tuple[str, str], key: tuple[str, str], now: datetime
) -> None:
    text = read_certificates(*cert)
    check_key(*key)
    try:
        # No password: an empty one is never asked for on the terminal.
        made.context.load_cert_chain(cert[1], key[1], password=lambda: "")
    except ssl.SSLError as error:
        raise _pair_fault(error, text, cert, key) from None
    except OSError as error:  # changed since it was read a moment ago
        why = error.strerror or str(error)
        raise TlsFileError(*cert, f"cannot be read: {why}") from None
    made.expires_at = expires_at = not_after(text)
    if expires_at is not None and expires_at <= now:
        made.warnings.append(
            f"{cert[0]}: the certificate in {cert[1]} expired on "
            f"{expires_at:%Y-%m-%d %H:%M} UTC, peers will refuse it; renew it, then "
            "send SIGHUP"
        )


def _pair_fault(
    error: ssl.SSLError, text: str, cert: tuple[str, str], key: tuple[str, str]
) -> TlsFileError:
    """Which of the two files is to blame, as far as OpenSSL tells."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return TlsFileError(
            *key,
            f"is not the key of the certificate in {cert[1]}: give the two files that "
            "belong together, the server's own certificate first in its file",
        )
    why = reason(error)
    if "too small" in why or "too weak" in why:
        return TlsFileError(
            *cert, f"is not accepted ({why}): use RSA of 2048 bits or more, or ECDSA"
        )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except ssl.SSLError:
        return TlsFileError(
            *cert, "holds a damaged certificate: write the file again from its source"
        )
    return TlsFileError(
        *key, f"holds no usable private key ({why}): give an RSA or ECDSA key in PEM"
    )


def _load_authorities(made: Credentials, flag: str, paths: Sequence[str]) -> None:
    for path in paths:
        text = read_certificates(flag, path)
        try:
            made.context.load_verify_locations(cadata=text)
        except ssl.SSLError:
            raise TlsFileError(
                *(flag, path),
                "holds a damaged certificate: write the file again from its source",
            ) from None


def reason(error: Exception) -> str:
    """Why TLS failed, in a few words and without places in somebody's source code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)
