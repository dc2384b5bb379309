"""What a worker may do wrong, and what its client gets then."""

from __future__ import annotations

import asyncio

import pytest
import ujson

from tests.e2e.scripts import CHUNKED, LENGTH_2, ROUTED, ask_once, raw
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, Answer, post
from tests.fakes.worker import Connection, Received

OK = b'{"ok":true}'


def fault(answer: Answer) -> str:
    """Status and code of an error the gateway made, its two places compared."""
    error = ujson.loads(answer.body)["error"]
    assert error["code"] == answer.get("x-smg-error-code")
    assert answer.get("content-type") == "application/json"
    return f"{answer.status} {error['code']}"


# -- nothing came --------------------------------------------------------------------


def test_a_refused_connection_is_named() -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        client = await stage.client()
        answer = await client.ask(post())
        assert fault(answer) == "500 call_upstream_connection_failed"
        url = stage.worker.url
        message = ujson.loads(answer.body)["error"]["message"]
        assert message == f"error sending request for url ({url}). URL: {url}"
        assert answer.get(ROUTED) is None
        assert stage.records[0].backend_errors == 1
        # The client's connection is as good as before.
        assert (await client.ask(post())).status == 500
        client.close()

    play(scene)


@pytest.mark.parametrize("request_bytes", [post(), post(STREAM)], ids=["chat", "sse"])
@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_worker_that_ends_unanswered_twice_is_an_error(
    end: str, request_bytes: bytes
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        getattr(connection, end)()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(request_bytes)
        assert fault(answer) == "500 call_upstream_request_error"
        assert answer.get(ROUTED) is None
        assert len(stage.worker.received) == 2, "sent exactly twice"
        assert stage.worker.accepted == 2
        assert stage.records[0].backend_errors == 1
        assert stage.responses() == {(500, "call_upstream_request_error"): 1}
        client.close()

    play(scene, script)


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\ncontent-"])
def test_a_worker_that_never_answers_runs_into_the_timeout_and_is_cut(
    part: bytes,
) -> None:
    is_cut = False

    async def script(connection: Connection, request: Received) -> None:
        nonlocal is_cut
        if part:
            await connection.send(part)
        await connection.until_gone()
        is_cut = True

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        began = asyncio.get_running_loop().time()
        answer = await client.ask(post())
        assert 0.9 < asyncio.get_running_loop().time() - began < 2.5
        assert fault(answer) == "504 call_upstream_timeout"
        assert answer.get(ROUTED) is None
        assert len(stage.worker.received) == 1, "a timeout is not sent again"
        assert stage.records[0].timeouts == 1
        assert stage.records[0].backend_errors == 0
        await eventually(lambda: is_cut)
        client.close()

    play(scene, script, upstream={"request_timeout_secs": 1})


# -- heads ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"garbage\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\nfoo: bar\n\n",
        b"HTTP/1.1 200 OK\r\na: b\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: \x00\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000 + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    ],
    ids=lambda head: head[9:44].decode("latin-1"),
)
def test_a_malformed_or_ambiguous_head_is_a_502_and_its_connection_is_dropped(
    head: bytes,
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post())
        assert fault(answer) == "502 call_upstream_request_error"
        assert len(stage.worker.received) == 1, "an answer came, if a bad one"
        await eventually(lambda: not stage.worker.open)
        assert stage.records[0].backend_errors == 1
        client.close()

    play(scene, raw(head))


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_head_that_breaks_off_is_an_error_and_not_sent_again(end: str) -> None:
    seen: list[bool] = []

    async def script(connection: Connection, request: Received) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-")
        seen.append(True)
        await asyncio.sleep(0.05)  # let the bytes be read: a reset may destroy them
        getattr(connection, end)()

    assert fault(ask_once(script)) == "500 call_upstream_request_error"


# -- bodies --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab",
        CHUNKED + b"\r\n2\r\nok\r\n",
        CHUNKED + b"\r\n2\r\nok\r\n0\r\n",
        CHUNKED + b"\r\n9\r\nok",
    ],
)
def test_a_body_cut_short_is_an_error_that_names_its_worker(reply: bytes) -> None:
    answer = ask_once(raw(reply, "close"))
    assert fault(answer) == "500 read_response_body_failed"
    assert (answer.get(ROUTED) or "").startswith("http://127.0.0.1:")


def test_a_body_broken_by_a_reset_is_the_same_error() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab")
        await asyncio.sleep(0.05)  # let the bytes be read: a reset may destroy them
        connection.reset()

    assert fault(ask_once(script)) == "500 read_response_body_failed"


def test_an_answer_that_breaks_off_by_time_is_a_timeout_that_names_its_worker() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab")
        await connection.until_gone()

    answer = ask_once(script, upstream={"request_timeout_secs": 1})
    assert fault(answer) == "504 call_upstream_timeout"
    assert answer.get(ROUTED) is not None


@pytest.mark.parametrize("rest", [b"zz\r\n", b"2\r\nokX\r\n", b"-1\r\n", b"2\nok\n"])
def test_a_broken_chunked_coding_is_a_502_that_names_its_worker(rest: bytes) -> None:
    answer = ask_once(raw(CHUNKED + b"\r\n" + rest))
    assert fault(answer) == "502 call_upstream_request_error"
    assert answer.get(ROUTED) is not None


@pytest.mark.parametrize("size", [101, 300_000])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_an_answer_over_the_payload_limit_is_a_502(framing: str, size: int) -> None:
    body = b"x" * size
    replies = {
        "length": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (size, body),
        "chunked": CHUNKED + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (size, body),
        "close": b"HTTP/1.1 200 OK\r\n\r\n" + body,
    }
    end = "close" if framing == "close" else ""
    answer = ask_once(raw(replies[framing], end), dispatch={"max_payload_size": 100})
    assert fault(answer) == "502 upstream_response_too_large"
    message = ujson.loads(answer.body)["error"]["message"]
    assert message == "Response from worker exceeded 100 bytes"
    assert answer.get(ROUTED) is not None


def test_an_answer_of_exactly_the_payload_limit_passes() -> None:
    reply = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n" + b"x" * 100
    assert ask_once(raw(reply), dispatch={"max_payload_size": 100}).body == b"x" * 100


def test_a_stream_may_be_longer_than_the_payload_limit() -> None:
    reply = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + b"x" * 999
    answer = ask_once(
        raw(reply, "close"), post(STREAM), dispatch={"max_payload_size": 100}
    )
    assert answer.body == b"x" * 999


def test_faults_on_messages_have_anthropics_shape() -> None:
    answer = ask_once(raw(b"garbage\r\n\r\n"), post(path="/v1/messages"))
    assert answer.status == 502
    assert answer.get("x-smg-error-code") == "call_upstream_request_error"
    body = ujson.loads(answer.body)
    assert (body["type"], body["error"]["type"]) == ("error", "api_error")


def test_one_workers_faults_are_no_others() -> None:
    async def dies(connection: Connection, request: Received) -> None:
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        statuses = [(await client.ask(post())).status for _ in range(6)]
        assert sorted(statuses) == [200, 200, 200, 500, 500, 500]
        assert [record.backend_errors for record in stage.records] == [3, 0]
        # Sent again to the same worker, never to its neighbour.
        assert [len(worker.received) for worker in stage.workers] == [6, 3]
        client.close()

    play(scene, dies, raw(LENGTH_2 + b"ok"))
