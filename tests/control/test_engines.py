import asyncio
from typing import Any

import pytest
import ujson

from smgproxy.api.replies import Reply
from smgproxy.core.errors import ConnectFailed, NoWorkers
from smgproxy.core.message import Headers
from tests.control.stage import A, B, Stage, ask, at_once
from tests.fakes.engine import FakeAnswer, sglang


def flush(it: Stage) -> tuple[int, Any]:
    """Flushing asks all workers at the same time, which takes a loop."""

    async def run() -> Reply:
        return await ask(it.routes, "POST", "/flush_cache", b"", None)

    reply = asyncio.run(run())
    return reply.status, ujson.loads(reply.body)


@pytest.mark.parametrize(
    "path", ["/get_model_info", "/get_server_info", "/health_generate"]
)
def test_a_ready_workers_answer_is_relayed(path: str) -> None:
    it = Stage()
    it.add(A, sglang(**{path: {"x": 1}}), api_key="k")
    reply = it.ask("GET", path)
    assert (reply.status, reply.body) == (200, b'{"x":1}')
    assert reply.head().get(b"content-type") == b"application/json"
    asked = it.engines.asked[-1]
    assert asked == (A, f"GET {path}", [(b"authorization", b"Bearer k")])


def get(it: Stage, path: str, headers: Headers) -> Headers:
    """What a worker is asked with when a client sends ``headers``."""
    at_once(ask(it.routes, "GET", path, b"", None, headers))
    sent: Headers = it.engines.asked[-1][2]
    return sent


def test_a_worker_is_asked_with_what_it_may_see_of_the_clients_headers() -> None:
    it = Stage()
    it.add(A, sglang(**{"/get_server_info": {}}))
    seen: Headers = [
        (b"x-request-id", b"r"),
        (b"x-request-id-upstream", b"u"),
        (b"authorization", b"Bearer client"),
        (b"traceparent", b"00-1-2-01"),
    ]
    others: Headers = [(b"cookie", b"c"), (b"accept", b"*/*"), (b"x-request-id", b"2")]
    assert get(it, "/get_server_info", seen + others) == seen


def test_a_workers_own_key_goes_instead_of_the_clients_credential() -> None:
    it = Stage()
    it.add(A, sglang(**{"/get_server_info": {}}), api_key="k")
    theirs: Headers = [(b"authorization", b"Bearer gateway"), (b"traceparent", b"t")]
    assert get(it, "/get_server_info", theirs) == [
        (b"authorization", b"Bearer k"),
        (b"traceparent", b"t"),
    ]


def test_a_workers_refusal_is_relayed() -> None:
    it = Stage()
    it.add()
    assert it.ask("GET", "/get_server_info").status == 404


def test_a_relayed_answer_keeps_the_workers_own_headers_only() -> None:
    it = Stage()
    headers = [
        (b"server", b"engine"),
        (b"content-length", b"2"),
        (b"connection", b"close"),
        (b"x-smg-error-code", b"fake"),
        (b"content-type", b"text/x"),
        (b"x-extra", b"1"),
    ]
    answer = FakeAnswer(200, b"ok", headers)
    it.add(A, sglang(**{"/get_server_info": answer}))
    head = it.ask("GET", "/get_server_info").head()
    kept = [(b"server", b"engine"), (b"content-type", b"text/x"), (b"x-extra", b"1")]
    assert head.headers == kept


def test_a_relayed_answer_without_a_type_is_given_none() -> None:
    it = Stage()
    it.add(A, sglang(**{"/get_server_info": FakeAnswer(200, b"ok", [])}))
    assert it.ask("GET", "/get_server_info").head().headers == []


def test_without_a_ready_worker_there_is_nobody_to_ask() -> None:
    it = Stage()
    with pytest.raises(NoWorkers):
        it.ask("GET", "/get_server_info")


def test_a_worker_that_cannot_be_reached_is_an_upstream_error() -> None:
    it = Stage()
    it.add()
    del it.engines.tables[A]
    with pytest.raises(ConnectFailed):
        it.ask("GET", "/get_server_info")


def test_flushing_reaches_every_worker_with_its_key() -> None:
    it = Stage()
    it.add(A, sglang(**{"/flush_cache": b"ok"}), api_key="k")
    it.add(B, sglang(**{"/flush_cache": b"ok"}))
    assert flush(it) == (
        200,
        {
            "status": "success",
            "message": "Successfully flushed cache on all 2 workers",
            "workers_flushed": 2,
            "total_http_workers": 2,
            "total_grpc_workers": 0,
            "total_zmq_workers_skipped": 0,
            "total_workers": 2,
        },
    )
    length = (b"content-length", b"0")
    assert it.engines.asked[-2:] == [
        (A, "POST /flush_cache", [length, (b"authorization", b"Bearer k")]),
        (B, "POST /flush_cache", [length]),
    ]


def test_a_flush_that_fails_somewhere_says_where() -> None:
    it = Stage()
    it.add(A, sglang(**{"/flush_cache": b"ok"}))
    it.add(B, sglang(**{"/flush_cache": 500}))
    it.add("http://c:1")
    del it.engines.tables["http://c:1"]
    status, body = flush(it)
    assert status == 206
    assert (body["status"], body["message"]) == (
        "partial_success",
        "Cache flush: 1 succeeded, 2 failed",
    )
    assert body["successful"] == [A]
    assert body["failed"] == [
        {
            "worker": B,
            "error": f"flush_cache failed for worker {B}/flush_cache: "
            "HTTP 500 Internal Server Error",
        },
        {
            "worker": "http://c:1",
            "error": "flush_cache failed for worker http://c:1/flush_cache: down",
        },
    ]


def test_flushing_without_workers_succeeds() -> None:
    status, body = flush(Stage())
    assert (status, body["message"]) == (200, "No workers available for cache flush")
