"""What a client of an unruly fleet may be answered, and whether it was.

The workers are those of misdeeds.py: their answers repeat the request's number.
"""

import json
from dataclasses import dataclass, field
from hashlib import blake2b

from loadtest.tools.misdeeds import EVENTS

DONE = b"data: [DONE]"
BROKEN_STREAM = "200 stream_error"
# By status and X-SMG-Error-Code; without a code it is the worker's own answer.
CONTRACT = (
    "200",
    BROKEN_STREAM,
    "429",
    "500",
    "503",
    "500 call_upstream_connection_failed",
    "500 call_upstream_request_error",
    "500 read_response_body_failed",
    "502 call_upstream_request_error",
    "503 no_available_workers",
    "504 call_upstream_timeout",
)


class Stray(Exception):
    """An answer that the contract does not have; says what is wrong."""


@dataclass(slots=True)
class Answer:
    """What has come so far for one request."""

    number: int
    is_stream: bool
    status: str = ""
    code: str = ""
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False

    def request(self, filler: int) -> bytes:
        """The body that asks for it.

        No two prompts begin alike, so that no worker is the only one that has them.
        """
        start = blake2b(b"%d" % self.number, digest_size=16).hexdigest()
        asked = {
            "model": "sim",
            "user": str(self.number),
            "stream": self.is_stream,
            "messages": [{"role": "user", "content": start + "a" * filler}],
        }
        return json.dumps(asked).encode()

    def label(self) -> str:
        """Which of CONTRACT it is. Raises Stray."""
        label = f"{self.status} {self.code}".rstrip()
        if not self.is_whole:
            raise Stray(f"{label or 'no head'}, broken off: {bytes(self.body[-99:])!r}")
        try:
            if self.status == "200" and self.is_stream:
                return self._stream_label()
            self._check_body()
        except (ValueError, KeyError, TypeError) as error:
            raise Stray(f"{label}: {error!r}: {bytes(self.body[-99:])!r}") from error
        if label not in CONTRACT:
            raise Stray(label)
        return label

    def _check_body(self) -> None:
        said = json.loads(self.body)
        if self.code:
            if said["error"]["code"] != self.code:
                raise ValueError("the body tells another code")
        elif said["echo"] != self.number:
            raise ValueError(f"not the answer to {self.number}")

    def _stream_label(self) -> str:
        *events, done, nothing = bytes(self.body).split(b"\n\n")
        if done != DONE or nothing:
            raise ValueError("does not end with [DONE]")
        said = [json.loads(each.removeprefix(b"data: ")) for each in events]
        is_broken = bool(said) and "error" in said[-1]
        if is_broken and said.pop()["error"]["type"] != "stream_error":
            raise ValueError("another error event")
        whole = [{"echo": self.number, "seq": seq} for seq in range(EVENTS)]
        if said != (whole[: len(said)] if is_broken else whole):
            raise ValueError(f"not the events of {self.number}")
        return BROKEN_STREAM if is_broken else "200"
