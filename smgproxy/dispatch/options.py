"""What a user may tune about how requests are carried out."""

from __future__ import annotations

import dataclasses
import re

from smgproxy.core.options import flag
from smgproxy.wire.http1 import TOKEN

_FIELD_NAME = re.compile(TOKEN)
_SHOWN_CHARACTERS = 60


def parse_header_name(text: str) -> str:
    """The name of a header that a request can have (RFC 9110, 5.1)."""
    if not (text.isascii() and _FIELD_NAME.fullmatch(text.encode())):
        raise ValueError(
            "must be header names such as x-request-id, without a colon or blanks, "
            f"got {ascii(text[:_SHOWN_CHARACTERS])}"
        )
    return text


@dataclasses.dataclass(frozen=True)
class DispatchOptions:
    """Bounds on bodies, and what is said during a silent stream."""

    max_payload_size: int = flag(
        536870912,
        "--max-payload-size",
        "Routing Policy",
        "largest request body in bytes, and largest worker response that is buffered",
        minimum=1,
    )
    max_buffered_request_bytes: int = flag(
        1048576,
        "--max-buffered-request-bytes",
        "Routing Policy",
        "largest request body in bytes that is read whole, so that it can be retried; "
        "longer ones go on to the worker as they come in; 0 = all of them",
        minimum=0,
    )
    spool_transcriptions: bool = flag(
        False,
        "--spool-transcriptions",
        "Request Handling",
        "keep each form with audio until it is complete, so that workers get all of "
        "them with their length: for engines that refuse chunked uploads",
    )
    sse_keepalive_secs: int = flag(
        15,
        "--sse-keepalive-secs",
        "Routing Policy",
        "silence of a worker after which an open event stream gets a keep-alive "
        "comment; 0 = off",
        minimum=0,
    )
    first_byte_timeout_secs: int = flag(
        0,
        "--first-byte-timeout-secs",
        "Request Handling",
        "longest wait for the beginning of a worker's answer; then the request goes to "
        "another worker, unless its body was streamed; 0 = off",
        minimum=0,
    )
    request_id_headers: tuple[str, ...] = flag(
        (),
        "--request-id-headers",
        "Request Handling",
        "headers read for the request id, in this order (default: x-request-id "
        "x-correlation-id x-trace-id request-id)",
        is_list=True,
        parse=parse_header_name,
    )
