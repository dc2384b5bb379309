"""PEM files read with care: what is wrong with one is said in one line.

The standard library tells little of a file it cannot use, and asks for a key's
password on the terminal; so files are looked at before they are handed to it.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

# A bundle of every CA there is has some 250 kB.
_MAX_FILE_BYTES = 4 * 1024 * 1024
_CERTIFICATE = re.compile(
    r"-----BEGIN CERTIFICATE-----\s.*?\s-----END CERTIFICATE-----", re.DOTALL
)
_KEY = re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----")
# Either the block's own name says that it is encrypted, or a header within it.
_ENCRYPTED = re.compile(r"BEGIN ENCRYPTED PRIVATE KEY|^Proc-Type: 4,ENCRYPTED", re.M)
_VERSION, _UTC_TIME, _GENERAL_TIME = 0xA0, 0x17, 0x18


class TlsFileError(Exception):
    """A certificate or key cannot be used: flag, file and remedy, in one line."""

    def __init__(self, flag: str, path: str, fault: str) -> None:
        # A path may hold a line break.
        shown = path if path.isprintable() else ascii(path)
        super().__init__(f"{flag}: {shown} {fault}")


def read_certificates(flag: str, path: str) -> str:
    """The text of a file that holds certificates. Raises TlsFileError."""
    text = _read(flag, path)
    if _CERTIFICATE.search(text) is None:
        raise TlsFileError(
            *(flag, path),
            "holds no PEM certificate: give a file with -----BEGIN CERTIFICATE----- "
            "in it (openssl x509 -inform der makes one of a DER file)",
        )
    return text


def check_key(flag: str, path: str) -> None:
    """Whether a file holds a key that can be used unattended. Raises TlsFileError."""
    text = _read(flag, path)
    if _KEY.search(text) is None:
        raise TlsFileError(
            *(flag, path),
            "holds no PEM private key: give a file with -----BEGIN PRIVATE KEY----- "
            "in it",
        )
    if _ENCRYPTED.search(text):
        raise TlsFileError(
            *(flag, path),
            "is protected by a password, which nobody types at a start: write it "
            "without one (openssl pkey -in OLD -out NEW) and keep it readable by the "
            "gateway alone",
        )


def _read(flag: str, path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise TlsFileError(
            *(flag, path),
            f"cannot be read: {why}; give the path of a PEM file that the gateway's "
            "user may read",
        ) from None
    if len(data) > _MAX_FILE_BYTES:
        raise TlsFileError(flag, path, "is too large: give a PEM file below 4 MiB")
    return data.decode("latin-1")


def not_after(pem: str) -> datetime | None:
    """When the first certificate of a text expires; None when it does not say.

    The standard library shows the dates of a peer's certificate only; of one's own
    they are read here (RFC 5280 section 4.1, as DER).
    """
    found = _CERTIFICATE.search(pem)
    if found is None:
        return None
    try:
        [(_, certificate)] = _inside(ssl.PEM_cert_to_DER_cert(found.group()))
        fields = _inside(_inside(certificate)[0][1])
        # version (optional), serial number, signature, issuer, validity
        validity = fields[4 if fields[0][0] == _VERSION else 3][1]
        kind, value = _inside(validity)[1]
        return _time(kind, value.decode("ascii"))
    except (ValueError, IndexError):
        return None


def _inside(data: bytes) -> list[tuple[int, bytes]]:
    """The DER elements that stand in a row: tag and content of each."""
    found = []
    at = 0
    while at < len(data):
        kind, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        found.append((kind, data[at : at + length]))
        at += length
    return found


def _time(kind: int, text: str) -> datetime | None:
    if kind == _UTC_TIME:
        # Two digits of a year: 50 and above are of the last century (RFC 5280).
        text = ("19" if text[:2] >= "50" else "20") + text
    elif kind != _GENERAL_TIME:
        return None
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
