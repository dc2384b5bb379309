"""Request ids on every answer: the client's, or made and named after the path."""

from __future__ import annotations

import re

import pytest

from tests.e2e.asking import get
from tests.e2e.stage import Stage, play
from tests.fakes.client import post


@pytest.mark.parametrize(
    ("request_bytes", "prefix"),
    [
        (post(), "chatcmpl-"),
        (post(b"{"), "chatcmpl-"),
        (get("/v1/chat/completions"), "chatcmpl-"),
        (post(path="/v1/completions"), "cmpl-"),
        (post(path="/generate"), "gnt-"),
        (post(path="/v1/responses"), "resp-"),
        (post(path="/v1/messages"), "msg_"),
        (post(path="/v1/messages/count_tokens"), "req-"),
        (get("/v1/responses/resp_1"), "req-"),
        (post(path="/v1/embeddings"), "req-"),
        (get("/v1/models"), "req-"),
        (get("/health"), "req-"),
        (get("/nope"), "req-"),
    ],
)
def test_every_answer_has_an_id_with_its_paths_prefix(
    request_bytes: bytes, prefix: str
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        made = []
        for _ in range(3):
            [one] = (await client.ask(request_bytes)).all("x-request-id")
            assert re.fullmatch(re.escape(prefix) + "[A-Za-z0-9]{24}", one)
            made.append(one)
        assert len(set(made)) == 3
        # What the client did not send, the worker does not get.
        assert all(r.get("x-request-id") is None for r in stage.worker.received)
        client.close()

    play(scene)


@pytest.mark.parametrize("request_bytes", [post(), get("/nope"), get("/health")])
def test_a_usable_id_comes_back_whatever_is_answered(request_bytes: bytes) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        mine = "!" + "a" * 126 + "~"
        sent = request_bytes.replace(
            b"\r\n", f"\r\nX-Request-Id: {mine}\r\n".encode(), 1
        )
        assert (await client.ask(sent)).all("x-request-id") == [mine]
        assert all(r.get("x-request-id") == mine for r in stage.worker.received)
        client.close()

    play(scene)


@pytest.mark.parametrize("value", ["", "a b", "a\tb", "a" * 129, "\u00e9"])
def test_an_unusable_id_is_replaced_here_and_for_the_worker(value: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        headers = f"X-Request-Id: {value}\r\nX-Correlation-Id: usable\r\n"
        answer = await client.ask(post(headers=headers))
        [made] = answer.all("x-request-id")
        assert made.startswith("chatcmpl-")
        [received] = stage.worker.received
        assert received.get("x-request-id") == made
        assert received.get("x-correlation-id") == "usable"
        client.close()

    play(scene)


def test_the_id_headers_are_tried_in_order_and_forwarded_as_allowed() -> None:
    names = ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"]

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for number, name in enumerate(names):
            sent = "".join(f"{n}: {n}-1\r\n" for n in reversed(names[number:]))
            answer = await client.ask(post(headers=sent))
            assert answer.get("x-request-id") == f"{name}-1"
            received = stage.worker.received[-1]
            forwarded = {n for n in names if received.get(n) is not None}
            assert forwarded == set(names[number:2])
        client.close()

    play(scene)


def test_other_id_headers_can_be_named_instead() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        both = "X-Second: 2\r\nX-First: 1\r\n"
        assert (await client.ask(post(headers=both))).get("x-request-id") == "1"
        second = await client.ask(post(headers="X-Second: 2\r\n"))
        assert second.get("x-request-id") == "2"
        theirs = await client.ask(post(headers="X-Request-Id: theirs\r\n"))
        assert (theirs.get("x-request-id") or "").startswith("chatcmpl-")
        # Not asked for here, but on the list of what a worker may see.
        assert stage.worker.received[-1].get("x-request-id") == "theirs"
        client.close()

    play(scene, dispatch={"request_id_headers": ("x-first", "X-Second")})
