"""What workers are asked, in turn, and what is relayed of their plain answers."""

from __future__ import annotations

import ujson

from tests.e2e.scripts import ask_once, raw
from tests.e2e.stage import Stage, play
from tests.fakes.client import STREAM, post
from tests.fakes.worker import Connection, Received

OK = b'{"ok":true}'
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


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


def test_coded_bodies_and_redirects_pass_untouched() -> None:
    answer = ask_once(
        raw(
            b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\n"
            b"content-encoding: gzip\r\ncontent-length: 3\r\n\r\n\x1f\x8b\x00"
        )
    )
    assert (answer.status, answer.body) == (302, b"\x1f\x8b\x00")
    assert answer.get("location") == "http://elsewhere/"
    assert answer.get("content-encoding") == "gzip"


def test_a_reply_without_a_body_stays_without() -> None:
    answer = ask_once(raw(NO_CONTENT))
    assert (answer.status, answer.get("content-length")) == (204, None)


def test_a_stream_of_a_model_nobody_serves_is_a_404() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(STREAM.replace(b'"m"', b'"nope"')))
        assert answer.status == 404
        error = ujson.loads(answer.body)["error"]
        assert error["code"] == answer.get("x-smg-error-code") == "model_not_found"
        assert "'nope'" in error["message"]
        client.close()

    play(scene)


def test_round_robin_takes_turns() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(6):
            await client.ask(post())
        assert [len(worker.received) for worker in stage.workers] == [3, 3]
        client.close()

    play(scene, raw(NO_CONTENT), raw(NO_CONTENT))
