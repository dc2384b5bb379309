"""The realtime routes beside the socket: sessions, their secrets, and calls.

Pure: a body in, a body out, or a `BadAsk`; the shapes are OpenAI's. The secrets open
nothing, and a call is answered with an SDP that takes no media.
"""

import time
from typing import Any

import msgspec

from smgproxy.simulated.bodies import BadAsk, decode
from smgproxy.simulated.forms import parts_of
from smgproxy.simulated.scoring import Scored

SECRET_SECS = 600
SDP = b"application/sdp"
_ANSWER = b"v=0\r\no=- 0 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"

Fields = dict[str, Any]
_OBJECTS = {"realtime": "session", "transcription": "transcription_session"}


class SecretBody(msgspec.Struct, kw_only=True):
    """`POST /v1/realtime/client_secrets`."""

    session: Fields


def session(body: bytes | bytearray, served_model: str, ident: str) -> Scored:
    """What was asked for, with an id and a secret."""
    asked = decode(body, Fields)
    return Scored(_session(asked, "realtime", ident) | _secret_of(ident), 0)


def transcription_session(
    body: bytes | bytearray, served_model: str, ident: str
) -> Scored:
    """The same for a session that only listens."""
    asked = decode(body, Fields)
    return Scored(_session(asked, "transcription", ident) | _secret_of(ident), 0)


def client_secret(body: bytes | bytearray, served_model: str, ident: str) -> Scored:
    """A secret, and the session that it is for."""
    asked = decode(body, SecretBody).session
    kind = "transcription" if asked.get("type") == "transcription" else "realtime"
    return Scored(_secret(ident) | {"session": _session(asked, kind, ident)}, 0)


def call(body: bytes | bytearray) -> bytes:
    """The answer to an offer: every medium of it, each refused (RFC 3264)."""
    offer = bytes(body)
    if not offer.startswith(b"v=0"):
        offer = bytes(parts_of(body).get(b"sdp", b""))
    if not offer.startswith(b"v=0"):
        raise BadAsk("no offer")
    media = [line for line in offer.splitlines() if line.startswith(b"m=")]
    return _ANSWER + b"".join(_refused(line) + b"\r\n" for line in media)


def _refused(line: bytes) -> bytes:
    """A medium with port 0: it is not taken."""
    kind, _, rest = line.partition(b" ")
    return b"%b 0 %b" % (kind, rest.partition(b" ")[2])


def _session(asked: Fields, kind: str, ident: str) -> Fields:
    own = {"id": f"sess_{ident}", "object": f"realtime.{_OBJECTS[kind]}"}
    return {"type": kind, **asked, **own}


def _secret_of(ident: str) -> Fields:
    return {"client_secret": _secret(ident)}


def _secret(ident: str) -> Fields:
    return {"value": f"ek_{ident}", "expires_at": int(time.time()) + SECRET_SECS}
