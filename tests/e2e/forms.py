"""Forms with audio as clients send them, and as workers get them."""

from __future__ import annotations

import re

from smgproxy.dispatch.spool import MEMORY_BYTES
from tests.fakes.worker import Received

PATH = "/v1/audio/transcriptions"
FORM_TYPE = "multipart/form-data; boundary=b"
LARGE = bytes(range(256)) * (3 * MEMORY_BYTES // 256)
MODEL = ("model", b"m")


def form(*fields: tuple[str, bytes], end: bytes = b"--b--\r\n") -> bytes:
    """The fields as a form with the boundary "b"."""
    pieces = [
        b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
        % (name.encode(), value)
        for name, value in fields
    ]
    return b"".join(pieces) + end


def request(
    body: bytes, content_type: str = FORM_TYPE, headers: str = "", size: int = -1
) -> bytes:
    """A request with this body, of which ``size`` bytes are announced."""
    size = len(body) if size < 0 else size
    return (
        f"POST {PATH} HTTP/1.1\r\nHost: g\r\nContent-Type: {content_type}\r\n"
        f"{headers}Content-Length: {size}\r\n\r\n"
    ).encode() + body


def ask(*fields: tuple[str, bytes], headers: str = "") -> bytes:
    """A request with these fields."""
    return request(form(*fields), headers=headers)


def form_behind(delimiter: bytes, *fields: tuple[str, bytes]) -> bytes:
    """The form that a worker gets."""
    body = b""
    for name, value in fields:
        extra = b'; filename="audio"' if name == "file" else b""
        disposition = b'Content-Disposition: form-data; name="%b"%b\r\n\r\n'
        head = disposition % (name.encode(), extra)
        body += delimiter + b"\r\n" + head + value + b"\r\n"
    return body + delimiter + b"--\r\n"


def delimiter_of(received: Received) -> bytes:
    """How the parts of a worker's form are told apart; nobody can guess it."""
    content_type = received.get("content-type") or ""
    found = re.fullmatch(
        r"multipart/form-data; boundary=(smgproxy-\w{32})", content_type
    )
    assert found is not None
    return b"--" + found[1].encode()


def was_sent(received: Received, *fields: tuple[str, bytes]) -> bool:
    """Whether a worker got these fields in one form of a set length."""
    body = form_behind(delimiter_of(received), *fields)
    assert received.get("content-length") == str(len(body))
    assert received.get("transfer-encoding") is None
    return received.body == body


def was_passed(received: Received, *fields: tuple[str, bytes]) -> bool:
    """Whether a worker got them while they came in: nobody knew the length."""
    assert received.get("content-length") is None
    return received.body == form_behind(delimiter_of(received), *fields)
