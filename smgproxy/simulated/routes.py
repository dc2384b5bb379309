"""Which path answers what, and how a refusal looks.

The table is all there is: what is not in it is a 404, another method a 405.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

from smgproxy.simulated import bodies, replies, scoring, sessions
from smgproxy.simulated.replies import JSON
from smgproxy.simulated.status import PROMETHEUS, Status
from smgproxy.simulated.systemone import systemone
from smgproxy.simulated.transcription import TranscriptionReply, read_transcription


@dataclass(frozen=True, slots=True)
class Generating:
    """A route that answers with words."""

    method: ClassVar[bytes] = b"POST"

    read: Callable[[bytes | bytearray, str], bodies.Ask]
    reply: type[replies.Reply]


@dataclass(frozen=True, slots=True)
class Scoring:
    """A route that answers with numbers."""

    method: ClassVar[bytes] = b"POST"

    answer: Callable[[bytes | bytearray, str, str], scoring.Scored]


@dataclass(frozen=True, slots=True)
class Telling:
    """A route that tells something about the worker."""

    method: ClassVar[bytes] = b"GET"

    tell: Callable[[Status], bytes]
    content_type: bytes = JSON


@dataclass(frozen=True, slots=True)
class Flushing:
    """`/flush_cache`: there is no cache, so it is always flushed."""

    method: ClassVar[bytes] = b"POST"


@dataclass(frozen=True, slots=True)
class Calling:
    """`/v1/realtime/calls`: an offer is answered, and the call gets a place."""

    method: ClassVar[bytes] = b"POST"


Route = Generating | Scoring | Telling | Flushing | Calling


def _healthy(status: Status) -> bytes:
    return b""


_SERVER_INFO = Telling(Status.server_info)
_MODEL_INFO = Telling(Status.model_info)
_HEALTH = Telling(_healthy)
_RERANK = Scoring(scoring.rerank)
_CLASSIFY = Scoring(scoring.classes)

ROUTES: dict[bytes, Route] = {
    b"/v1/chat/completions": Generating(bodies.read_chat, replies.ChatReply),
    b"/v1/completions": Generating(bodies.read_completion, replies.CompletionReply),
    b"/v1/messages": Generating(bodies.read_messages, replies.MessageReply),
    b"/generate": Generating(bodies.read_generate, replies.GenerateReply),
    b"/v1/embeddings": Scoring(scoring.embeddings),
    b"/v1/rerank": _RERANK,
    b"/rerank": _RERANK,
    b"/v1/classify": _CLASSIFY,
    b"/classify": _CLASSIFY,
    b"/v1/systemone": Scoring(systemone),
    b"/v1/audio/transcriptions": Generating(read_transcription, TranscriptionReply),
    b"/v1/realtime/sessions": Scoring(sessions.session),
    b"/v1/realtime/client_secrets": Scoring(sessions.client_secret),
    b"/v1/realtime/transcription_sessions": Scoring(sessions.transcription_session),
    b"/v1/realtime/calls": Calling(),
    b"/flush_cache": Flushing(),
    b"/v1/models": Telling(Status.models),
    b"/health": _HEALTH,
    b"/health_generate": _HEALTH,
    b"/server_info": _SERVER_INFO,
    b"/get_server_info": _SERVER_INFO,
    b"/model_info": _MODEL_INFO,
    b"/get_model_info": _MODEL_INFO,
    b"/v1/loads": Telling(Status.loads),
    b"/metrics": Telling(Status.metrics, PROMETHEUS),
}

# As vLLM names them.
_ERROR_TYPES = {
    400: "BadRequestError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    413: "RequestEntityTooLargeError",
    431: "RequestHeaderFieldsTooLargeError",
}


def is_anthropic(path: bytes) -> bool:
    """Whether clients of this path read Anthropic's error shape."""
    return path.startswith(b"/v1/messages")


def refusal(status: int, message: str, path: bytes = b"") -> bytes:
    """The body of an error, in the dialect of the path that was asked."""
    if is_anthropic(path):
        kind = "not_found_error" if status == 404 else "invalid_request_error"
        fault = {"type": kind, "message": message}
        return replies.to_json({"type": "error", "error": fault})
    return replies.to_json(
        {
            "error": {
                "message": message,
                "type": _ERROR_TYPES[status],
                "param": None,
                "code": status,
            }
        }
    )


def status_line(status: int) -> bytes:
    """The first line of a response."""
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
