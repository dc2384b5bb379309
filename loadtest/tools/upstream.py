"""The simulated worker in Python: same arguments and answers as upstream.c.

Its files say the same things; a change of one is a change of both.
"""

import argparse
import asyncio
import time
from typing import cast

import httptools
import uvloop

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
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


class Worker(asyncio.Protocol):
    """One connection: requests in, one answer each, streams paced by `tick`."""

    streaming: set["Worker"] = set()

    def __init__(self, settings: argparse.Namespace) -> None:
        self._settings = settings
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body: list[bytes] = []
        self._sent = 0
        self._reply = b'{"status":"ok"}'
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._reply = pad(REPLY, self._settings.reply_bytes - 8)

    def connection_lost(self, exc: Exception | None) -> None:
        self.streaming.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._path = url
        self._body = []

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if wants_stream(b"".join(self._body)):
            self._transport.write(STREAM_HEAD)
            self._sent = 0
            self.streaming.add(self)
            return
        is_get = self._parser.get_method() == b"GET"
        body = fact(self._path) if is_get else self._reply
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        length = b"content-length: %d\r\n\r\n" % len(body)
        self._transport.write(head + length + body)

    def tick(self) -> None:
        """Send the next event, or the end."""
        if self._sent < self._settings.events:
            text = EVENT % (time.monotonic_ns(), self._sent)
            event = pad(text, self._settings.event_bytes - 10) + b"\n\n"
            self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))
            self._sent += 1
        else:
            self.streaming.discard(self)
            self._transport.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


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
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
