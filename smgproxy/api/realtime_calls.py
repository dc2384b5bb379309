"""POST /v1/realtime/calls: an SDP offer, alone or in a form beside its session."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from smgproxy.api.realtime import (
    Place,
    fields_of,
    model_of_session,
    renamed,
)
from smgproxy.api.steps import Steps
from smgproxy.core.errors import BadCall
from smgproxy.core.message import RequestHead
from smgproxy.wire.multipart import MultipartError, boundary_of, parameters

# An offer of a browser has some kilobytes.
MAX_PARTS = 64
_DISPOSITION = re.compile(
    rb"^content-disposition:[ \t]*form-data[ \t]*(;[^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
# RFC 8866 section 5: lines of a letter, "=" and a value, the version first. It takes
# nothing back, so that a long offer costs no memory.
_SDP = re.compile(rb"v=0\r?\n(?:[a-z]=[^\r\n]*+(?:\r?\n|\Z))++")
# Lines behind are for the worker to check.
_CHECKED_SDP_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 16 * 1024
_BYTES_A_STEP = 4 * 1024 * 1024
_SDP_PART, _SESSION = b"sdp", b"session"


class CallModel(NamedTuple):
    """The model a call is for, and where in the form's ``session`` it stands."""

    name: str
    session: bytes = b""
    place: Place = ()


def model_of_call(head: RequestHead, body: bytes) -> Steps[CallModel]:
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
        return (yield from _model_of_form(content_type, body))
    raise BadCall(
        "invalid_content_type",
        "Expected `Content-Type: application/sdp` or `multipart/form-data`",
    )


def call_renamed(body: bytes, found: CallModel, model: str) -> Steps[bytes]:
    """A call's body with another model in its session, if it has one."""
    if not found.place:
        return body
    session = yield from renamed(found.session, found.place, model)
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
    if len(offer) > _CHECKED_SDP_BYTES:
        offer = offer[: offer.rfind(b"\n", 0, _CHECKED_SDP_BYTES) + 1]
    if _SDP.fullmatch(offer) is None:
        raise BadCall("invalid_sdp", "The offer is not a session description")


def _model_of_form(content_type: bytes, body: bytes) -> Steps[CallModel]:
    try:
        boundary = boundary_of(content_type)
    except MultipartError as error:
        raise BadCall("invalid_multipart", str(error)) from None
    parts, cut_off = yield from _parts(body, boundary)
    for name, code in ((_SDP_PART, "unreadable_sdp"), (_SESSION, "unreadable_session")):
        if name == cut_off:
            raise BadCall(code, f"The part `{name.decode()}` is cut off")
    if _SDP_PART not in parts:
        raise BadCall("missing_sdp", "The form has no part `sdp`")
    if _SESSION not in parts:
        raise BadCall("missing_model", "The form has no part `session` with a `model`")
    _check_sdp(parts[_SDP_PART])
    session = fields_of(parts[_SESSION])
    yield
    if session is None:
        raise BadCall("invalid_session_json", "The part `session` is no JSON object")
    found = yield from model_of_session(session)
    if found is None:
        raise BadCall("missing_model", "The part `session` has no `model`")
    return CallModel(found[0], parts[_SESSION], found[1])


def _parts(
    body: bytes, boundary: bytes
) -> Steps[tuple[dict[bytes, bytes], bytes | None]]:
    """The two parts that are read, the first of each; and one without an end.

    RFC 2046 section 5.1.1; what stands before the first and behind the last delimiter
    means nothing.
    """
    delimiter = b"\r\n--" + boundary
    parts: dict[bytes, bytes] = {}
    # The first one may be the form's first line.
    is_first_line = body.startswith(delimiter[2:])
    end = -2 if is_first_line else (yield from _find(body, delimiter, 0))
    for left in range(MAX_PARTS, 0, -1):
        if end == -1:
            break
        start = end + len(delimiter)
        yield
        if body.startswith(b"--", start):
            break
        end = (yield from _find(body, delimiter, start)) if left > 1 else -1
        name, at = _part_at(body, start, len(body) if end == -1 else end)
        if end == -1:
            return parts, name
        if name == _SDP_PART:  # no more of it is looked at
            end_read = min(end, at + _CHECKED_SDP_BYTES + 1)
            parts.setdefault(name, body[at:end_read])
        elif name == _SESSION:
            parts.setdefault(name, body[at:end])
    return parts, None


def _find(body: bytes, what: bytes, start: int) -> Steps[int]:
    """``body.find``, which may take a millisecond for each megabyte of line ends."""
    while True:
        end = start + _BYTES_A_STEP
        found = body.find(what, start, end + len(what) - 1)
        if found >= 0 or end >= len(body):
            return found
        start = end
        yield


def _part_at(body: bytes, start: int, end: int) -> tuple[bytes, int]:
    """The name of the part between two delimiters, and where its content begins."""
    until = min(end, start + _MAX_HEAD_BYTES)
    gap = body.find(b"\r\n\r\n", start, until)
    if gap < 0 and until < end:
        raise BadCall("invalid_multipart", "The form has a part with too long a head")
    found = _DISPOSITION.search(body[start : until if gap < 0 else gap])
    name = parameters(found[1]).get(b"name") if found else None
    if name is None:
        raise BadCall("invalid_multipart", "The form has a part without a name")
    return name, end if gap < 0 else gap + 4
