"""Server-sent events: where an event ends, and the events the gateway makes itself."""

from __future__ import annotations

from smgproxy.wire.json import dumps

PING = b": ping\n\n"
ANTHROPIC_PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def ends_event(tail: bytes) -> bool:
    """Whether a stream's last bytes end an event, so that another may follow.

    An empty tail counts: nothing was sent yet (WHATWG HTML, 9.2.5: events are
    separated by a blank line, lines end in LF, CR LF or CR).
    """
    return not tail or tail.endswith((b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"))


def error_event(cause: str, tail: bytes, is_anthropic: bool) -> bytes:
    """What ends a stream whose worker failed after the head was sent.

    OpenAI dialect: an error event, then ``[DONE]``; Anthropic's: an error event alone.
    """
    message = f"Stream error: {cause}"
    lead = b"" if ends_event(tail) else b"\n\n"
    if is_anthropic:
        error = {"type": "error", "error": {"type": "api_error", "message": message}}
        return lead + b"event: error\ndata: " + dumps(error) + b"\n\n"
    error = {"error": {"message": message, "type": "stream_error"}}
    return lead + b"data: " + dumps(error) + b"\n\ndata: [DONE]\n\n"
