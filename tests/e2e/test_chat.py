"""The plainest story: a request reaches a worker and its answer comes back."""

from __future__ import annotations

import ujson

from smgproxy.api.aliases import AliasOptions
from tests.e2e.asking import get
from tests.e2e.stage import Stage, play
from tests.fakes.client import CHAT, chat, post
from tests.fakes.worker import Connection, Received


def test_an_answer_comes_back_with_the_gateways_headers() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(
            b'{"id":"x"}',
            headers="x-worker: kept\r\nx-smg-error-code: fake\r\n"
            "x-request-id: theirs\r\n"
            "set-cookie: a=1\r\nset-cookie: b=2\r\nkeep-alive: timeout=5\r\n",
        )

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(headers="X-Request-ID: mine\r\n"))
        assert (answer.status, answer.body) == (200, b'{"id":"x"}')
        assert answer.get("x-worker") == "kept"
        assert answer.get("x-smg-error-code") is None
        assert answer.all("x-request-id") == ["mine"]
        assert answer.get("x-smg-routed-worker-id") == stage.worker.url
        assert answer.all("set-cookie") == ["a=1", "b=2"]
        assert answer.get("keep-alive") is None
        assert answer.get("content-length") == "10"
        client.close()

    play(scene, script)


def test_the_worker_gets_the_clients_bytes_and_only_allowed_headers() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.ask(
            post(
                headers="Authorization: Bearer k\r\nCookie: c=1\r\nUser-Agent: u\r\n"
                "X-Request-ID: r\r\nX-Request-ID-Up: s\r\nAccept: text/html\r\n"
                "X-SMG-Routing-Tokens: 1\r\nTraceparent: t\r\nX-Request-ID: r2\r\n"
                "Tracestate: a=1\r\nTracestate: b=2\r\n"
            )
        )
        [received] = stage.worker.received
        assert received.body == CHAT
        assert received.headers == [
            ("content-type", "application/json"),
            ("content-length", str(len(CHAT))),
            ("authorization", "Bearer k"),
            ("x-request-id", "r"),
            ("x-request-id-up", "s"),
            ("traceparent", "t"),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
            ("accept", "*/*"),
            ("host", f"127.0.0.1:{stage.worker.port}"),
        ]
        client.close()

    play(scene)


def test_an_alias_is_served_under_the_canonical_name_and_not_listed() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post(chat("nick")))).status == 200
        [received] = stage.worker.received
        assert ujson.loads(received.body)["model"] == "m"
        assert (await client.ask(post(chat("Nick")))).status == 404
        listed = ujson.loads((await client.ask(get("/v1/models"))).body)["data"]
        assert [one["id"] for one in listed] == ["m"]
        client.close()

    play(scene, aliases=AliasOptions(("nick=m",)))


def test_requests_on_one_connection_share_one_worker_connection() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(5):
            assert (await client.ask(post())).status == 200
        assert stage.worker.accepted == 1
        client.close()

    play(scene)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(request.body)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        bodies = [chat(seed=i) for i in range(20)]
        await client.send(b"".join(post(body) for body in bodies))
        assert [(await client.answer()).body for _ in bodies] == bodies
        client.close()

    play(scene, script)
