"""One client's connection to a simulated worker: HTTP/1.1 in, answers out.

Requests that come in one after the other without waiting are answered in order.
Framing is llhttp's: this listens on loopback, in front of no one's money. The
end of the client's byte stream means that the client is gone.
"""

import asyncio
from collections import deque
from typing import NamedTuple, cast
from uuid import uuid4

import httptools

from smgproxy.simulated import realtime, sessions
from smgproxy.simulated.batch import Run
from smgproxy.simulated.bodies import BadAsk
from smgproxy.simulated.replies import JSON, TEXT
from smgproxy.simulated.routes import (
    ROUTES,
    Calling,
    Flushing,
    Generating,
    Scoring,
    Telling,
    refusal,
    status_line,
)
from smgproxy.simulated.worker import Worker

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEAD_BYTES = 512 * 1024
MAX_WAITING = 64
MAX_WAITING_BYTES = 1024 * 1024
WRITE_HIGH_BYTES = 64 * 1024
WRITE_LOW_BYTES = 16 * 1024

# Engines close a connection that has been idle for 5 s (uvicorn's default); the
# gateway must live with that, so the simulated ones do it too.
IDLE_SECS = 5.0
UPLOAD_SECS = 60.0
SLOW_READER_SECS = 300.0

_EVENT_STREAM = (
    b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
)
_CLOSE = b"connection: close\r\n"


class Request(NamedTuple):
    """A request that is complete, or a refusal to read one."""

    method: bytes
    path: bytes
    body: bytes | bytearray
    is_last: bool
    is_http10: bool
    refused: int = 0


class Connection(asyncio.Protocol):
    """Parses, answers in order, and tells the batch when the client is gone."""

    __slots__ = (
        "is_full",
        "moved_at",
        "_worker",
        "_transport",
        "_parser",
        "_url",
        "_headers",
        "_head_bytes",
        "_expects_continue",
        "_body",
        "_is_too_large",
        "_is_in_request",
        "_is_deaf",
        "_waiting",
        "_request",
        "_run",
        "_is_serving",
        "_is_paused",
    )

    _transport: asyncio.Transport
    _parser: httptools.HttpRequestParser

    def __init__(self, worker: Worker) -> None:
        self.is_full = False
        self.moved_at = worker.clock.time()
        self._worker = worker
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []  # of a realtime session
        self._head_bytes = 0
        self._expects_continue = False
        self._body: bytearray | None = None
        self._is_too_large = False
        self._is_in_request = False
        self._is_deaf = False
        self._waiting: deque[Request] = deque()
        self._request: Request | None = None
        self._run: Run | None = None
        self._is_serving = False
        self._is_paused = False

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are of no asyncio class: isinstance would be False.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        self._parser = httptools.HttpRequestParser(self)
        self._worker.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._worker.connections.discard(self)
        self._waiting.clear()
        self._is_deaf = True
        if self._run is not None:
            self._worker.batch.drop(self._run)
            self._run = None

    def data_received(self, data: bytes) -> None:
        self.moved_at = self._worker.clock.time()
        if self._is_deaf:
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The offer is declined by answering; what follows is not HTTP.
            self._is_deaf = True
            if self._begins_session():
                self._switch(data[upgrade.args[0] :])
                return
        except httptools.HttpParserError:
            self._refuse(400)
        if self._head_bytes > MAX_HEAD_BYTES and not self._is_deaf:
            self._refuse(431)
        self._serve()
        if self._is_crowded():
            self._is_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self.is_full = True
        self.moved_at = self._worker.clock.time()

    def resume_writing(self) -> None:
        self.is_full = False
        self.moved_at = self._worker.clock.time()
        if self._run is not None:
            self._worker.batch.resume(self._run)

    # What the parser says.

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers.clear()
        self._body = None
        self._is_too_large = False
        self._expects_continue = False
        self._is_in_request = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._path() == realtime.PATH:
            self._headers.append((name, value))
        if name.lower() == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True

    def on_headers_complete(self) -> None:
        # The body of a request that no route wants is read past, not kept.
        if self._parser.get_method() == b"POST" and self._path() in ROUTES:
            self._body = bytearray()
        is_next = self._request is None and not self._waiting
        if self._expects_continue and is_next:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0
        body = self._body
        if body is None:
            return
        if len(body) + len(data) > MAX_BODY_BYTES:
            # Read to its end all the same: closing on a client that still
            # sends would reset the connection and lose the answer.
            self._body = None
            self._is_too_large = True
        else:
            body += data

    def on_message_complete(self) -> None:
        is_last = not self._parser.should_keep_alive()
        is_http10 = self._parser.get_http_version() == "1.0"
        self._waiting.append(
            Request(
                self._parser.get_method(),
                self._path(),
                b"" if self._body is None else self._body,
                is_last or is_http10 or self._parser.should_upgrade(),
                is_http10,
                413 if self._is_too_large else 0,
            )
        )
        self._body = None
        self._head_bytes = 0
        self._is_in_request = False
        self._is_deaf = self._is_deaf or is_last

    # What the batch says (it is the Outlet of its runs).

    def send_events(self, events: list[bytes], is_last: bool) -> None:
        assert self._request is not None
        if self._request.is_http10:
            data = b"".join(events)
        else:
            # A chunk per event, as engines frame them.
            chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
            data = b"".join(chunks)
            if is_last:
                data += b"0\r\n\r\n"
        if not self._transport.is_closing():
            self._transport.write(data)
        if is_last:
            self._end_answer()

    def send_whole(self, body: bytes) -> None:
        assert self._run is not None
        self._send(200, self._run.content_type, body)

    # The sweep of the worker asks this now and then.

    def close_if_stale(self, now: float) -> None:
        """Let go of a client that has shown no sign of life for too long."""
        quiet_secs = now - self.moved_at
        if self.is_full:
            if quiet_secs > SLOW_READER_SECS:
                self._transport.abort()
        elif self._transport.is_closing():
            if quiet_secs > UPLOAD_SECS:
                self._transport.abort()
        elif self._request is None:
            if quiet_secs > (UPLOAD_SECS if self._is_in_request else IDLE_SECS):
                self._transport.close()

    def cut(self) -> None:
        """Close at once, whatever is under way."""
        self._transport.abort()

    def _begins_session(self) -> bool:
        """Whether the upgrade is a realtime session's, and nothing comes before it."""
        is_next = self._request is None and len(self._waiting) == 1
        return is_next and self._path() == realtime.PATH

    def _switch(self, early: bytes) -> None:
        """Give the connection away."""
        self._waiting.clear()
        self._worker.connections.discard(self)
        session = realtime.EchoSession(self._worker, self._transport)
        self._transport.set_protocol(session)
        session.begin(self._headers, self._url, early)

    def _path(self) -> bytes:
        return self._url.partition(b"?")[0]

    def _is_crowded(self) -> bool:
        """Whether the requests behind the one being answered are enough."""
        if not self._waiting:
            return False
        size = sum(len(request.body) for request in self._waiting)
        return len(self._waiting) >= MAX_WAITING or size > MAX_WAITING_BYTES

    def _refuse(self, status: int) -> None:
        """Answer what cannot be read in its turn, and read no more."""
        if not self._is_deaf:
            self._is_deaf = True
            self._waiting.append(Request(b"", b"", b"", True, False, status))

    def _serve(self) -> None:
        """Answer the waiting requests until one has to take its time."""
        if self._is_serving:
            return
        self._is_serving = True
        while self._waiting and self._request is None:
            self._request = self._waiting.popleft()
            self._answer(self._request)
        self._is_serving = False

    def _answer(self, request: Request) -> None:
        route = ROUTES.get(request.path)
        if request.refused:
            self._send_refusal(request.refused, "The request cannot be read.")
            return
        if route is None:
            path = request.path.decode("ascii", "replace")
            self._send_refusal(404, f"Not Found: {path}")
            return
        allowed = (b"GET", b"HEAD") if route.method == b"GET" else (route.method,)
        if request.method not in allowed:
            allow = b"allow: %b\r\n" % b", ".join(allowed)
            self._send_refusal(405, "Method Not Allowed", allow)
        elif isinstance(route, Telling):
            body = route.tell(self._worker.status)
            self._send(200, route.content_type, body)
        elif isinstance(route, Flushing):
            self._send(200, TEXT, b"Cache flushed.\n")
        elif isinstance(route, Calling):
            self._call(request)
        else:
            self._work(route, request)

    def _work(self, route: Generating | Scoring, request: Request) -> None:
        """Give a request to the batch; it calls back when something is due."""
        # The body is let go of here: a run holds the answer alone.
        self._request = request._replace(body=b"")
        try:
            run = self._worker.begin(route, request.body, self)
        except BadAsk as error:
            self._send_refusal(400, str(error))
            return
        self._run = run
        if not isinstance(run.answer, bytes):
            framing = b"" if request.is_http10 else b"transfer-encoding: chunked\r\n"
            close = _CLOSE if request.is_last else b""
            head = (status_line(200), _EVENT_STREAM, framing, close, b"\r\n")
            # At once, as engines do: the first token comes when it comes.
            self._transport.write(b"".join(head))
        self._worker.batch.start(run)

    def _call(self, request: Request) -> None:
        """Answer an offer."""
        try:
            answer = sessions.call(request.body)
        except BadAsk as error:
            self._send_refusal(400, str(error))
            return
        place = b"location: /v1/realtime/calls/rtc_%b\r\n" % uuid4().hex[:24].encode()
        self._send(201, sessions.SDP, answer, place)

    def _send_refusal(self, status: int, message: str, extra: bytes = b"") -> None:
        assert self._request is not None
        body = refusal(status, message, self._request.path)
        self._send(status, JSON, body, extra)

    def _send(
        self, status: int, content_type: bytes, body: bytes, extra: bytes = b""
    ) -> None:
        request = self._request
        assert request is not None
        close = _CLOSE if request.is_last else b""
        lines = b"content-type: %b\r\ncontent-length: %d\r\n%b%b\r\n"
        head = status_line(status) + lines % (content_type, len(body), extra, close)
        if not self._transport.is_closing():
            self._transport.write(head if request.method == b"HEAD" else head + body)
        self._end_answer()

    def _end_answer(self) -> None:
        assert self._request is not None
        is_last = self._request.is_last
        self._request = None
        self._run = None
        self.moved_at = self._worker.clock.time()
        if is_last:
            self._is_deaf = True
            self._waiting.clear()
            self._transport.close()
            return
        self._serve()
        if self._is_paused and not self._is_crowded():
            self._is_paused = False
            self._transport.resume_reading()
