"""Realtime requests: which model they are for (seed: Realtime API).

Bodies go on as they were sent (ruling 30), but for an alias, which no worker knows.
What is read of them is the model, in every place where clients are known to put it, in
steps, each of which goes over the body once: large ones are taken in turns.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote

import msgspec

from smgproxy.api.bodies import is_json_type
from smgproxy.api.editing import Edits, edit_steps
from smgproxy.api.steps import Steps
from smgproxy.core.errors import BadBody, BadQuery, InvalidField
from smgproxy.core.message import RequestHead
from smgproxy.wire.websocket_handshake import browser_key

PATH = "/v1/realtime"
CALLS = "/v1/realtime/calls"
SESSIONS = "/v1/realtime/sessions"
CLIENT_SECRETS = "/v1/realtime/client_secrets"
TRANSCRIPTION_SESSIONS = "/v1/realtime/transcription_sessions"

_MAX_QUERY_FIELDS = 64
_ABSENT = msgspec.Raw()


class Fields(msgspec.Struct):
    """What is read of an object, as it is written; all else is passed over.

    The names on the way to a model, at any level: of a large body, little is kept.
    """

    type: msgspec.Raw = _ABSENT  # noqa: A003 - the contract's word
    model: msgspec.Raw = _ABSENT
    session: msgspec.Raw = _ABSENT
    audio: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT  # noqa: A003
    transcription: msgspec.Raw = _ABSENT
    input_audio_transcription: msgspec.Raw = _ABSENT


_decode = msgspec.json.Decoder(Fields).decode
_decode_text = msgspec.json.Decoder(str | None).decode
# Where in a JSON body: the names on the way to a field.
Place = tuple[str, ...]
_PLACES: tuple[Place, ...] = (
    ("model",),
    ("audio", "input", "transcription", "model"),
    ("input_audio_transcription", "model"),
)
# What "type" may be where it is given.
_TYPES = {
    SESSIONS: ("realtime",),
    CLIENT_SECRETS: ("realtime", "transcription"),
    TRANSCRIPTION_SESSIONS: ("transcription",),
}


def adopt_browser_key(head: RequestHead) -> None:
    """Take a key among the subprotocols for the Authorization a browser cannot send."""
    if b"authorization" not in head.first:
        key = browser_key(head)
        if key is not None:
            head.first[b"authorization"] = value = b"Bearer " + key
            head.headers.append((b"authorization", value))


def model_of_query(head: RequestHead) -> str:
    """The query's ``model``. Raises BadQuery."""
    try:
        pairs = parse_qsl(
            head.query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS
        )
    except ValueError:
        raise BadQuery("The query has too many parameters") from None
    models = [value for name, value in pairs if name == "model"]
    if len(models) > 1:
        raise BadQuery("The query parameter `model` is given more than once")
    if not models or not models[0]:
        raise BadQuery("The query parameter `model` is missing")
    return models[0]


def target(path: str, model: str) -> bytes:
    """A path with ``model`` as its query, which is all of it that a worker gets."""
    return f"{path}?model={quote(model, safe='')}".encode()


def model_of_body(
    path: str, head: RequestHead, body: bytes
) -> Steps[tuple[str, Place]]:
    """The model of one of the JSON routes, and its place.

    Raises BadBody and InvalidField.
    """
    if not is_json_type(head.first.get(b"content-type")):
        raise BadBody("Expected request with `Content-Type: application/json`")
    session = _read_json(body)
    yield
    outer: Place = ()
    if path == CLIENT_SECRETS:
        outer = ("session",)
        inner = fields_of(session.session)
        yield
        if inner is None:
            raise BadBody("Failed to parse the request body as JSON: missing `session`")
        session = inner
    prefix = "".join(f"{name}." for name in outer)
    kind = _text(session.type)
    if kind is not None and kind not in _TYPES[path]:
        raise BadBody(
            f"Failed to parse the request body as JSON: `{prefix}type` must be "
            + " or ".join(f"`{each}`" for each in _TYPES[path])
        )
    found = yield from model_of_session(session)
    if found is None:
        raise InvalidField(f"`{prefix}model` is required")
    model, place = found
    return model, outer + place


def renamed(text: bytes, place: Place, model: str) -> Steps[bytes]:
    """A JSON object with another model in its place, all else as it was written."""
    *outer, name = place
    edits: Edits = {name: msgspec.json.encode(model)}
    for one in reversed(outer):
        edits = {one: edits}
    yield
    return (yield from edit_steps(text, edits))


def _read_json(body: bytes) -> Fields:
    """A JSON object. Raises BadBody."""
    try:
        return _decode(body)
    except msgspec.ValidationError:
        why = "expected an object"
    except msgspec.DecodeError as error:
        why = str(error)
    except RecursionError:
        why = "nested too deeply"
    raise BadBody(f"Failed to parse the request body as JSON: {why}") from None


def fields_of(text: bytes | msgspec.Raw) -> Fields | None:
    """What stands in a JSON object; None when it is none."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def model_of_session(session: Fields) -> Steps[tuple[str, Place] | None]:
    """The model a session is for, or transcribes with, and its place; None: none."""
    for place in _PLACES:
        model = _text((yield from _at(session, place)))
        if model is not None:
            return (model, place) if model else None
    return None


def _at(fields: Fields, place: Place) -> Steps[msgspec.Raw]:
    *outer, name = place
    for one in outer:
        raw: msgspec.Raw = getattr(fields, one)
        inner = fields_of(raw)
        if inner is None:
            return _ABSENT
        fields = inner
        yield
    found: msgspec.Raw = getattr(fields, name)
    return found


def _text(value: msgspec.Raw) -> str | None:
    """A string; None if absent or null, empty for what is no string."""
    if not bytes(value):
        return None
    try:
        return _decode_text(value)
    except msgspec.DecodeError:
        return ""
