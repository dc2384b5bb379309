"""POST /v1/realtime/calls: an SDP offer, alone or in a form beside its session."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from smgproxy.api.realtime import Place, fields_of, model_of_session, renamed
from smgproxy.core.errors import BadCall
from smgproxy.core.message import RequestHead

# An offer of a browser has some kilobytes.
MAX_PARTS = 64
_BOUNDARY = re.compile(
    rb";[ \t]*boundary=(?:\"([^\"\r\n]{1,70})\"|([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,70}))",
    re.IGNORECASE,
)
_NAME = re.compile(
    rb"^content-disposition:[ \t]*form-data(?:;.*?)?;[ \t]*name=\"?([^\";\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
# RFC 8866 section 5: lines of a letter, "=" and a value, the version first.
_SDP = re.compile(rb"v=0\r?\n(?:[a-z]=[^\r\n]*\r?\n)*[a-z]=[^\r\n]*(?:\r?\n)?")


class CallModel(NamedTuple):
    """The model a call is for, and where in the form's ``session`` it stands."""

    name: str
    session: bytes = b""
    place: Place = ()


def model_of_call(head: RequestHead, body: bytes) -> CallModel:
    """The model a call is for. Raises BadCall."""
    content_type = head.first.get(b"content-type", b"")
    media_type = content_type.partition(b";")[0].strip().lower()
    if media_type == b"application/sdp":
        pairs = parse_qsl(head.query, keep_blank_values=True)
        model = next((value for name, value in pairs if name == "model"), "")
        if not model:
            raise BadCall("missing_model", "The query parameter `model` is required")
        _check_sdp(body)
        return CallModel(model)
    if media_type == b"multipart/form-data":
        return _model_of_form(content_type, body)
    raise BadCall(
        "invalid_content_type",
        "Expected `Content-Type: application/sdp` or `multipart/form-data`",
    )


def call_renamed(body: bytes, found: CallModel, model: str) -> bytes:
    """A call's body with another model in its session, if it has one."""
    if not found.place:
        return body
    session = renamed(found.session, found.place, model)
    # Between a part's head and the next delimiter: no other text can be meant.
    around = b"\r\n\r\n%b\r\n--"
    return body.replace(around % found.session, around % session)


def location_here(location: bytes) -> bytes:
    """A worker's Location as its client can use it: the same path, of this gateway."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if not parts.netloc:
        return location
    path = parts.path or b"/"
    return path + (b"?" + parts.query if parts.query else b"")


def _check_sdp(offer: bytes) -> None:
    if _SDP.fullmatch(offer) is None:
        raise BadCall("invalid_sdp", "The offer is not a session description")


def _model_of_form(content_type: bytes, body: bytes) -> CallModel:
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise BadCall("invalid_multipart", "The form's boundary is missing or invalid")
    parts, cut_off = _parts(body, boundary[1] or boundary[2])
    for name, code in ((b"sdp", "unreadable_sdp"), (b"session", "unreadable_session")):
        if name == cut_off:
            raise BadCall(code, f"The part `{name.decode()}` is cut off")
    if b"sdp" not in parts:
        raise BadCall("missing_sdp", "The form has no part `sdp`")
    if b"session" not in parts:
        raise BadCall("missing_model", "The form has no part `session` with a `model`")
    _check_sdp(parts[b"sdp"])
    session = fields_of(parts[b"session"])
    if session is None:
        raise BadCall("invalid_session_json", "The part `session` is no JSON object")
    found = model_of_session(session)
    if found is None:
        raise BadCall("missing_model", "The part `session` has no `model`")
    return CallModel(found[0], parts[b"session"], found[1])


def _parts(body: bytes, boundary: bytes) -> tuple[dict[bytes, bytes], bytes | None]:
    """A form's parts by name, the first of each; and the name of one without an end.

    RFC 2046 section 5.1.1; what stands before the first and behind the last delimiter
    means nothing.
    """
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary, MAX_PARTS)
    parts: dict[bytes, bytes] = {}
    last = pieces.pop() if len(pieces) > 1 else None
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return parts, None
        name, content = _part(piece)
        parts.setdefault(name, content)
    if last is None or last.startswith(b"--"):
        return parts, None
    return parts, _part(last)[0]


def _part(piece: bytes) -> tuple[bytes, bytes]:
    head, found, content = piece.partition(b"\r\n\r\n")
    name = _NAME.search(head)
    if name is None or (not found and not head):
        raise BadCall("invalid_multipart", "The form has a part without a name")
    return name[1], content
