"""Worker connections: reused, expired, resent once, never poisoned; their faults."""

from __future__ import annotations

import pytest
import ujson

from smgproxy.fleet.worker import WorkerState
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, Answer, post
from tests.fakes.worker import Connection, Received, Script

OK = b'{"ok":true}'


def raw(data: bytes, closes: bool = False) -> Script:
    """A worker that answers exactly these bytes."""

    async def script(connection: Connection, request: Received) -> None:
        await connection.send(data)
        if closes:
            connection.close()

    return script


def ask(script: Script, body: bytes | None = None, **rooms: object) -> Answer:
    """One request to one such worker."""
    answers: list[Answer] = []

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answers.append(await client.ask(post(body) if body else post()))
        client.close()

    play(scene, script, **rooms)
    return answers[0]


def code(answer: Answer) -> str:
    error = ujson.loads(answer.body)["error"]
    assert error["code"] == answer.get("x-smg-error-code")
    return f"{answer.status} {error['code']}"


def test_a_connection_that_died_idle_costs_the_client_nothing() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(OK)
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(10):
            assert (await client.ask(post())).status == 200
        client.close()

    play(scene, script)


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_connection_closed_on_reuse_is_replaced_and_the_request_sent_again(
    end: str,
) -> None:
    seen: dict[Connection, int] = {}

    async def script(connection: Connection, request: Received) -> None:
        seen[connection] = seen.get(connection, 0) + 1
        if seen[connection] == 1:
            await connection.answer(OK)
        else:
            getattr(connection, end)()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post())).status == 200
        assert (await client.ask(post())).status == 200
        assert stage.gateway.upstream.resends == 1
        client.close()

    play(scene, script)


def test_a_worker_that_closes_unanswered_gets_a_request_exactly_twice() -> None:
    async def script(connection: Connection, request: Received) -> None:
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post())
        assert code(answer) == "500 call_upstream_request_error"
        assert answer.get("x-smg-routed-worker-id") is None
        assert len(stage.worker.received) == 2
        assert stage.records[0].backend_errors == 1
        client.close()

    play(scene, script)


def test_a_request_that_was_answered_in_part_is_not_sent_again() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert code(await client.ask(post())) == "500 call_upstream_request_error"
        assert len(stage.worker.received) == 1
        client.close()

    play(scene, raw(b"HTTP/1.1 200 OK\r\ncontent-", closes=True))


def test_a_refused_connection_is_named() -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        client = await stage.client()
        answer = await client.ask(post())
        assert code(answer) == "500 call_upstream_connection_failed"
        assert stage.worker.url in ujson.loads(answer.body)["error"]["message"]
        client.close()

    play(scene)


def test_a_worker_that_never_answers_runs_into_the_request_timeout() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert code(await client.ask(post())) == "504 call_upstream_timeout"
        assert len(stage.worker.received) == 1
        assert stage.records[0].timeouts == 1
        client.close()

    play(scene, script, upstream={"request_timeout_secs": 1})


@pytest.mark.parametrize(
    "head",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\nfoo: bar\n\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
    ],
)
def test_a_malformed_or_ambiguous_head_is_a_502(head: bytes) -> None:
    assert code(ask(raw(head))) == "502 call_upstream_request_error"


def test_chunked_beside_a_length_is_read_as_chunked() -> None:
    answer = ask(
        raw(
            b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\ntransfer-encoding: chunked\r\n"
            b"\r\n2\r\n{}\r\n0\r\n\r\n"
        )
    )
    assert (answer.body, answer.get("content-length")) == (b"{}", "2")


def test_a_body_cut_short_is_an_error_that_names_its_worker() -> None:
    answer = ask(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab", closes=True))
    assert code(answer) == "500 read_response_body_failed"
    assert answer.get("x-smg-routed-worker-id") is not None


@pytest.mark.parametrize("size", [101, 300_000])
def test_a_reply_over_the_payload_limit_is_a_502(size: int) -> None:
    answer = ask(
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size),
        dispatch={"max_payload_size": 100},
    )
    assert code(answer) == "502 upstream_response_too_large"


def test_interim_responses_are_skipped() -> None:
    answer = ask(
        raw(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        )
    )
    assert (answer.status, answer.body, answer.get("link")) == (200, b"ok", None)


def test_a_close_delimited_reply_is_relayed_with_a_length() -> None:
    answer = ask(raw(b"HTTP/1.0 200 OK\r\n\r\nhello", closes=True))
    assert (answer.body, answer.get("content-length")) == (b"hello", "5")


def test_coded_bodies_and_redirects_pass_untouched() -> None:
    answer = ask(
        raw(
            b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\n"
            b"content-encoding: gzip\r\ncontent-length: 3\r\n\r\n\x1f\x8b\x00"
        )
    )
    assert (answer.status, answer.body) == (302, b"\x1f\x8b\x00")
    assert answer.get("location") == "http://elsewhere/"
    assert answer.get("content-encoding") == "gzip"


def test_a_reply_without_a_body_stays_without() -> None:
    answer = ask(raw(b"HTTP/1.1 204 No Content\r\n\r\n"))
    assert (answer.status, answer.get("content-length")) == (204, None)


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokEXTRA",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nX",
    ],
)
def test_a_poisoned_connection_is_never_used_again(reply: bytes) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(3):
            assert (await client.ask(post())).body == b"ok"
        assert stage.worker.accepted == 3
        client.close()

    play(scene, raw(reply))


def test_an_idle_connection_is_closed_by_the_gateway_in_time() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.ask(post())
        assert stage.gateway.upstream.counts()[stage.worker.url] == (1, 0)
        await eventually(lambda: not stage.worker.open)
        client.close()

    play(scene, upstream={"upstream_pool_idle_timeout_secs": 1})


def test_a_worker_that_is_not_ready_gets_nothing() -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        client = await stage.client()
        answer = await client.ask(post())
        assert code(answer) == "503 no_available_workers"
        assert answer.get("retry-after") == "1"
        assert stage.worker.received == []
        client.close()

    play(scene)


def test_a_model_nobody_serves_is_a_404() -> None:
    answer = ask(raw(b""), STREAM.replace(b'"m"', b'"nope"'))
    assert code(answer) == "404 model_not_found"
    assert "'nope'" in ujson.loads(answer.body)["error"]["message"]


def test_round_robin_takes_turns() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(6):
            await client.ask(post())
        assert [len(worker.received) for worker in stage.workers] == [3, 3]
        client.close()

    play(scene, raw(b"HTTP/1.1 204 No\r\n\r\n"), raw(b"HTTP/1.1 204 No\r\n\r\n"))
