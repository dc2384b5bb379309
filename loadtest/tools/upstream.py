"""The simulated worker in Python: same arguments and answers as upstream.c.

Its files say the same things; a change of one is a change of both.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator

import uvloop

from loadtest.tools.incoming import Incoming

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
STREAM_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
JSON_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
EVENT = (
    b'data: {"id":"chatcmpl-sim","object":"chat.completion.chunk",'
    b'"created":1700000000,"model":"sim","t":%d,"seq":%d,"choices":[{"index":0,'
    b'"delta":{"content":" tok"},"finish_reason":null}]'
)
REPLY = (
    b'{"id":"chatcmpl-sim","object":"chat.completion","created":1700000000,'
    b'"model":"sim","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,'
    b'"completion_tokens":2,"total_tokens":11}'
)
FACTS = {
    b"/v1/models": b'{"object":"list","data":[{"id":"sim","object":"model",'
    b'"created":1,"owned_by":"sglang","root":"sim","max_model_len":32768}]}',
    b"model_info": b'{"model_path":"sim","served_model_name":"sim",'
    b'"tokenizer_path":"sim","is_generation":true,'
    b'"preferred_sampling_params":null}',
    b"server_info": b'{"model_path":"sim","served_model_name":"sim",'
    b'"version":"0.5.21","dp_size":1,"tp_size":1,"max_running_requests":4096,'
    b'"internal_states":[{}]}',
    b"loads": b'{"loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0,'
    b'"num_total_reqs":0,"num_used_tokens":0,"num_total_tokens":0,'
    b'"max_total_num_tokens":1000000,"token_usage":0.0,"gen_throughput":100.0,'
    b'"cache_hit_rate":0.0,"utilization":0.0,"max_running_requests":4096}]}',
}


PIECE_BYTES = 16384
PIECES_A_TURN = 2


def pad(text: bytes, wanted: int) -> bytes:
    """Close the object, after a filler that brings it to the wanted size."""
    return b'%b,"p":"%b"}' % (text, b"x" * max(0, wanted - len(text)))


def fact(path: bytes) -> bytes:
    """The body for a gateway's probe."""
    for part, body in FACTS.items():
        if part in path:
            return body
    return b'{"status":"ok"}'


def wants_stream(body: bytes) -> bool:
    """Whether the request asks for events."""
    return b'"stream":true' in body.replace(b" ", b"")


def big_pieces(total: int, is_stream: bool) -> Iterator[bytes]:
    """A big answer: events of PIECE_BYTES in chunks, or slices of one completion."""
    if is_stream:
        event = b'data: {"p":"' + b"x" * (PIECE_BYTES - 16) + b'"}\n\n'
        for _ in range(total // PIECE_BYTES):
            yield b"%x\r\n%b\r\n" % (PIECE_BYTES, event)
        yield STREAM_END
        return
    filler = b"x" * PIECE_BYTES
    yield b'{"p":"' + filler[6:]
    for _ in range(total // PIECE_BYTES - 2):
        yield filler
    yield filler[2:] + b'"}'


class Worker(Incoming):
    """One connection: requests in, one answer each, streams paced by `tick`."""

    streaming: set["Worker"] = set()
    running: set["Worker"] = set()
    blocked: set["Worker"] = set()
    most_running = 0
    big_sent = 0

    def __init__(self, settings: argparse.Namespace) -> None:
        super().__init__()
        self._settings = settings
        self._sent = 0
        self._reply = pad(REPLY, settings.reply_bytes - 8)
        self._big: Iterator[bytes] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.streaming.discard(self)
        self.running.discard(self)
        self.blocked.discard(self)
        self._big = None

    def pause_writing(self) -> None:
        self.blocked.add(self)

    def resume_writing(self) -> None:
        self.blocked.discard(self)
        self._push()

    def on_message_complete(self) -> None:
        is_stream = wants_stream(b"".join(self._body))
        is_get = self._is_get
        is_big = self._settings.big_mib and not is_get and self._path == b"/generate"
        if is_stream:
            self._transport.write(STREAM_HEAD)
        if is_big:
            self._start_big(self._settings.big_mib << 20, is_stream)
        elif is_stream:
            self._sent = 0
            self.streaming.add(self)
            self._count_in()
        else:
            body = self._answer_to_get() if is_get else self._reply
            self._transport.write(JSON_HEAD % len(body) + body)

    def _answer_to_get(self) -> bytes:
        if self._path != b"/sim/state":
            return fact(self._path)
        state = {
            "running": len(self.running),
            "most_running": Worker.most_running,
            "blocked": len(self.blocked),
            "big_sent": Worker.big_sent,
        }
        return json.dumps(state).encode()

    def _count_in(self) -> None:
        self.running.add(self)
        Worker.most_running = max(Worker.most_running, len(self.running))

    def _start_big(self, total: int, is_stream: bool) -> None:
        if not is_stream:
            self._transport.write(JSON_HEAD % total)
        self._big = big_pieces(total, is_stream)
        self._count_in()
        self._push()

    def _push(self) -> None:
        """Send of a big answer what is taken, and not too much before others' turn."""
        for _ in range(PIECES_A_TURN):
            if self._big is None or self in self.blocked:
                return
            piece = next(self._big, None)
            if piece is None:
                self._big = None
                self.running.discard(self)
                return
            Worker.big_sent += len(piece)
            self._transport.write(piece)
        asyncio.get_running_loop().call_soon(self._push)

    def tick(self) -> None:
        """Send the next event, or the end."""
        if self._sent < self._settings.events:
            text = EVENT % (time.monotonic_ns(), self._sent)
            event = pad(text, self._settings.event_bytes - 10) + b"\n\n"
            self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))
            self._sent += 1
        else:
            self.streaming.discard(self)
            self.running.discard(self)
            self._transport.write(STREAM_END)


async def serve(settings: argparse.Namespace) -> None:
    """Listen, and move all streams at every tick, until killed."""
    loop = asyncio.get_running_loop()
    # uvloop closes a server that nobody holds.
    server = await loop.create_server(
        lambda: Worker(settings), "127.0.0.1", settings.port, backlog=4096
    )
    due = loop.time()
    while server.is_serving():
        due = max(due + settings.tick_ms / 1000, loop.time())
        await asyncio.sleep(due - loop.time())
        if not settings.silent:
            for worker in list(Worker.streaming):
                worker.tick()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--events", type=int, default=64)
    parser.add_argument("--tick-ms", type=int, default=20)
    parser.add_argument("--event-bytes", type=int, default=220)
    parser.add_argument("--reply-bytes", type=int, default=400)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--big-mib", type=int, default=0)
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
