"""HTTP/1.1 on the wire: smgproxy/simulated/connection.py, byte for byte."""

import asyncio
import json

import pytest

from smgproxy.simulated.connection import IDLE_SECS, MAX_BODY_BYTES, MAX_HEAD_BYTES
from smgproxy.simulated.options import SimulatedOptions
from smgproxy.simulated.server import SimulatedServer
from tests.simulated.serving import AT_ONCE, RawClient, eventually, post, serve

CHAT = b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}'
STREAM = CHAT[:-1] + b',"stream":true}'
HEALTH = b"GET /health HTTP/1.1\r\nhost: sim\r\n\r\n"
SLOW = SimulatedOptions(ttft_ms=20, tokens_per_second=50)
ENDLESS = b'{"prompt":"hi","stream":true,"ignore_eos":true}'


def test_connection_serves_one_request_after_another() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            for _ in range(3):
                client.writer.write(HEALTH)
                response = await client.response()
                assert (response.status, response.body) == (200, b"")

    serve(scenario)


@pytest.mark.parametrize("options", [AT_ONCE, SLOW])
def test_pipelined_requests_are_answered_in_order(options: SimulatedOptions) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            chat = "/v1/chat/completions"
            client.writer.write(
                post(chat, STREAM) + HEALTH + post(chat, CHAT) + post("/nowhere", b"x")
            )
            first = await client.response()
            assert first.headers[b"content-type"].startswith(b"text/event-stream")
            assert first.body.endswith(b"data: [DONE]\n\n")
            assert (await client.response()).body == b""
            assert json.loads((await client.response()).body)["choices"]
            assert (await client.response()).status == 404

    serve(scenario, options)


def test_many_pipelined_requests_are_all_answered() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            chat = post("/v1/chat/completions", CHAT)
            client.writer.write(chat + HEALTH * 200 + chat)
            for _ in range(202):
                assert (await client.response()).status == 200

    serve(scenario, SLOW)


def test_request_a_byte_at_a_time_is_understood() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            for byte in post("/v1/chat/completions", CHAT):
                client.writer.write(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert (await client.response()).status == 200

    serve(scenario)


def test_chunked_body_is_read() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            client.writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\n"
                b"transfer-encoding: chunked\r\n\r\n"
                + b"".join(b"1\r\n%c\r\n" % byte for byte in CHAT)
                + b"0\r\n\r\n"
            )
            chunked = json.loads((await client.response()).body)
            client.writer.write(post("/v1/chat/completions", CHAT))
            sized = json.loads((await client.response()).body)
            assert chunked["choices"] == sized["choices"]

    serve(scenario)


def test_connection_close_is_honoured_and_announced() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            chat = post("/v1/chat/completions", STREAM, "connection: close")
            client.writer.write(chat + HEALTH)
            response = await client.response()
            assert response.headers[b"connection"] == b"close"
            assert await client.is_closed()

    serve(scenario)


def test_http10_stream_ends_with_the_connection() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            request = post("/v1/chat/completions", STREAM)
            client.writer.write(request.replace(b"HTTP/1.1", b"HTTP/1.0"))
            head, _, body = (await client.reader.read()).partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head
            assert body.startswith(b"data: {") and body.endswith(b"data: [DONE]\n\n")

    serve(scenario)


def test_expected_continue_is_sent() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            request = post("/v1/chat/completions", CHAT, "expect: 100-continue")
            client.writer.write(request[: -len(CHAT)])
            line = await client.reader.readuntil(b"\r\n\r\n")
            assert line == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.writer.write(CHAT)
            assert (await client.response()).status == 200

    serve(scenario)


def test_body_over_the_limit_is_read_past_and_refused() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            block = b" " * (1024 * 1024)
            size = MAX_BODY_BYTES + 1
            head = post("/v1/chat/completions", b"").replace(
                b"content-length: 0", b"content-length: %d" % size
            )
            client.writer.write(head)
            for _ in range(MAX_BODY_BYTES // len(block)):
                client.writer.write(block)
                await client.writer.drain()
            client.writer.write(b" " + HEALTH)
            assert (await client.response()).status == 413
            assert (await client.response()).status == 200

    serve(scenario)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: sim\r\nno colon\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES + b"y", 431),
    ],
)
def test_unreadable_request_is_refused_and_the_connection_closed(
    request_bytes: bytes, status: int
) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            client.writer.write(HEALTH)
            assert (await client.response()).status == 200
            client.writer.write(request_bytes)
            refused = await client.response()
            assert refused.status == status
            assert refused.headers[b"connection"] == b"close"
            assert json.loads(refused.body)["error"]["code"] == status
            assert await client.is_closed()

    serve(scenario)


def test_upgrade_offer_is_declined_with_an_ordinary_answer() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            offer = b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"
            client.writer.write(HEALTH[:-2] + offer)
            assert (await client.response()).status == 200
            assert await client.is_closed()

    serve(scenario)


@pytest.mark.parametrize("is_stream", [True, False])
def test_generation_stops_when_the_client_leaves(is_stream: bool) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        batch = server.worker.batch
        async with RawClient(url) as client:
            body = ENDLESS if is_stream else ENDLESS.replace(b"true", b"false", 1)
            client.writer.write(post("/v1/completions", body))
            await eventually(lambda: batch.running == 1)
            if is_stream:
                await client.reader.readuntil(b"data: ")
        await eventually(lambda: batch.running == 0)
        assert batch.aborted_total == 1
        assert not batch.is_armed

    serve(scenario, SLOW)


def test_requests_behind_an_abandoned_one_are_forgotten() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            client.writer.write(post("/v1/completions", ENDLESS) * 3)
            await eventually(lambda: server.worker.batch.running == 1)
        await eventually(lambda: server.worker.batch.running == 0)
        assert server.worker.batch.started_total == 1

    serve(scenario, SLOW)


def test_slow_reader_holds_its_stream_and_gets_all_of_it() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            # Long enough for both sockets' buffers, which Linux grows to MBs.
            body = ENDLESS[:-1] + b',"n":20}'
            client.writer.write(post("/v1/completions", body))
            await eventually(
                lambda: any(
                    getattr(connection, "is_full")
                    for connection in server.worker.connections
                )
            )
            assert server.worker.batch.running == 1
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received = received[-4:] + await client.reader.read(1 << 20)
        assert server.worker.batch.aborted_total == 0

    serve(scenario)


def test_idle_connection_is_closed_after_a_while() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            client.writer.write(HEALTH)
            await client.response()
            (connection,) = server.worker.connections
            now = server.worker.clock.time()
            connection.close_if_stale(now + IDLE_SECS - 1)
            client.writer.write(HEALTH)
            assert (await client.response()).status == 200
            connection.close_if_stale(now + 2 * IDLE_SECS)
            assert await client.is_closed()

    serve(scenario)


def test_busy_connection_is_never_stale() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            client.writer.write(post("/v1/chat/completions", STREAM))
            await eventually(lambda: server.worker.batch.running == 1)
            (connection,) = server.worker.connections
            connection.close_if_stale(server.worker.clock.time() + 3600)
            assert (await client.response()).body.endswith(b"[DONE]\n\n")

    serve(scenario, SLOW)
