"""What routing needs of a JSON body: the model's name and whether it streams."""

from __future__ import annotations

import msgspec

from smgproxy.core.errors import BadBody
from smgproxy.core.message import RequestHead


class Call:
    """What a request asks of a worker; ``body`` is the client's own bytes."""

    __slots__ = ("model", "is_stream", "body")

    def __init__(self, model: str | None, is_stream: bool, body: bytes) -> None:
        self.model = model
        self.is_stream = is_stream
        self.body = body


class _Routing(msgspec.Struct):
    model: str | None = None
    stream: bool | None = None


_decoder = msgspec.json.Decoder(_Routing)


def is_json_type(value: bytes | None) -> bool:
    """Whether a Content-Type names JSON: application/json or application/*+json."""
    if value is None:
        return False
    media_type = value.partition(b";")[0].strip().lower()
    return media_type == b"application/json" or (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    )


def read_call(head: RequestHead, body: bytes) -> Call:
    """Read a body as far as it is needed to route it. Raises BadBody."""
    content_type = head.first.get(b"content-type")
    if content_type != b"application/json" and not is_json_type(content_type):
        raise BadBody("Expected request with `Content-Type: application/json`")
    try:
        fields = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise BadBody(f"Failed to parse the request body as JSON: {error}") from None
    except RecursionError:
        raise BadBody(
            "Failed to parse the request body as JSON: nested too deeply"
        ) from None
    return Call(fields.model, fields.stream is True, body)
