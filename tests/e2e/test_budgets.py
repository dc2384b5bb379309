"""Budgets of tenants over real sockets: whole replies, streams, refusals."""

from __future__ import annotations

from typing import Any

import ujson

from smgproxy.admission.budget_rules import Policy, Quota, TenantRules
from smgproxy.admission.keys import Keys, Secret, TenantKey
from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.test_keys import bearer
from tests.fakes.client import STREAM, post
from tests.fakes.worker import Connection, Received, Script, say_ok

KEYS = Keys(tenants=[TenantKey(one, Secret(f"k-{one}")) for one in ("red", "blue")])
RED, BLUE = post(headers=bearer("k-red")), post(headers=bearer("k-blue"))


def rules(tokens: int = 1000, requests: int = 100) -> TenantRules:
    return TenantRules(Policy(Quota(tokens, requests)))


def level(stage: Stage, tenant: str = "auth:red") -> float:
    """The tokens a tenant has left; what came in meanwhile is rounded away."""
    budgets = stage.gateway.budgets
    assert budgets is not None
    return round(budgets._budget_of(tenant, 0.0).whole.tokens, -1)


def telling(prompt: int, completion: int, status: int = 200) -> Script:
    """A worker that answers whole, with its usage."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}

    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(ujson.dumps({"usage": usage}).encode(), status)

    return script


def streaming(*events: bytes, is_cut: bool = False) -> Script:
    """A worker that streams events, and perhaps dies behind them."""

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for data in events:
            await connection.chunk(b"data: " + data + b"\n\n")
        if is_cut:
            connection.reset()
        else:
            await connection.end_stream()

    return script


async def shed(stage: Stage, request: bytes) -> str | None:
    """A request is refused for its tenant's budget; its Retry-After."""
    answer = await stage.ask(request)
    assert answer.status == 429
    assert answer.get("x-smg-error-code") == "tenant_rate_limit_exceeded"
    assert error_of(answer) == {
        "type": "Too Many Requests",
        "code": "tenant_rate_limit_exceeded",
        "message": "Tenant rate limit exceeded for this request",
        "param": None,
    }
    return answer.get("retry-after")


def test_tenant_without_requests_left_is_refused_and_the_other_is_not() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(2):
            assert (await stage.ask(RED)).status == 200
        assert await shed(stage, RED) == "30"
        assert (await stage.ask(BLUE)).status == 200
        assert len(stage.worker.received) == 3

    play(scene, keys=KEYS, tenant_rules=rules(requests=2))


def test_whole_reply_settles_the_charge() -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.ask(RED)).status == 200
        assert level(stage) == 700
        assert level(stage, "auth:blue") == 1000

    play(scene, telling(100, 200), keys=KEYS, tenant_rules=rules())


def test_stream_is_never_cut_and_the_next_request_pays() -> None:
    chunk, usage = (
        b'{"usage":null}',
        b'{"usage":{"prompt_tokens":1,"completion_tokens":1999}}',
    )

    async def scene(stage: Stage) -> None:
        answer = await stage.ask(post(STREAM, headers=bearer("k-red")))
        assert answer.is_whole and answer.body.endswith(b"data: [DONE]\n\n")
        assert await shed(stage, RED) in ("60", "61")

    worker = streaming(*[chunk] * 1000, usage, b"[DONE]")
    play(scene, worker, keys=KEYS, tenant_rules=rules())


def test_stream_that_tells_no_usage_keeps_its_estimate() -> None:
    text = "x" * 1200

    async def scene(stage: Stage) -> None:
        body = ujson.dumps({"model": "m", "stream": True, "prompt": text}).encode()
        await stage.ask(post(body, "/v1/completions", bearer("k-red")))
        assert level(stage) == 700

    play(scene, streaming(b"{}", b"[DONE]"), keys=KEYS, tenant_rules=rules())


def test_token_hint_is_the_estimate() -> None:
    async def scene(stage: Stage) -> None:
        hint = "X-SMG-Routing-Tokens: " + ",".join(["7"] * 300) + "\r\n"
        await stage.ask(post(headers=bearer("k-red") + hint))
        assert level(stage) == 700

    play(scene, keys=KEYS, tenant_rules=rules())


def test_error_of_a_worker_keeps_the_estimate() -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.ask(RED)).status == 400
        assert level(stage) == 1000  # the estimate of "hi" is one token

    play(scene, telling(100, 200, status=400), keys=KEYS, tenant_rules=rules())


def test_broken_stream_keeps_the_estimate() -> None:
    usage = b'{"usage":{"prompt_tokens":100,"completion_tokens":200}}'

    async def scene(stage: Stage) -> None:
        await stage.ask(post(STREAM, headers=bearer("k-red")))
        assert level(stage) == 1000

    play(scene, streaming(usage, is_cut=True), keys=KEYS, tenant_rules=rules())


def test_prompt_that_never_fits_is_told_no_time() -> None:
    async def scene(stage: Stage) -> None:
        body = ujson.dumps({"model": "m", "prompt": "x" * 5000}).encode()
        request = post(body, "/v1/completions", bearer("k-red"))
        assert await shed(stage, request) is None
        assert stage.worker.received == []

    play(scene, keys=KEYS, tenant_rules=rules())


def test_without_keys_the_address_is_the_tenant() -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.ask(post())).status == 200
        assert await shed(stage, post()) == "60"
        assert stage.gateway.budgets is not None
        assert list(stage.gateway.budgets.counts) == [
            ("ip:127.0.0.1", "allowed"),
            ("ip:127.0.0.1", "rejected"),
        ]

    play(scene, tenant_rules=rules(requests=1))


def test_trusted_header_names_the_tenant() -> None:
    async def scene(stage: Stage) -> None:
        for team in ("a", "b"):
            request = post(headers=f"X-SMG-Tenant-ID: {team}\r\n")
            assert (await stage.ask(request)).status == 200
            assert await shed(stage, request) == "60"

    play(scene, tenant_rules=rules(requests=1), tenant_header="x-smg-tenant-id")


def test_every_reservation_is_closed() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post(STREAM, headers=bearer("k-red")))
        await client.head()
        budgets = stage.gateway.budgets
        assert budgets is not None
        budget = budgets._budget_of("auth:red", 0.0)
        assert budget.open == 1
        client.close()
        await eventually(lambda: budget.open == 0)

    async def endless(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.until_gone()

    play(scene, endless, keys=KEYS, tenant_rules=rules())


def test_a_body_that_streams_is_charged_by_its_length_until_the_reply_settles() -> None:
    levels: list[float] = []

    async def scene(stage: Stage) -> None:
        body = ujson.dumps({"model": "m", "prompt": "x" * 1180}).encode()
        request = post(body, "/v1/completions", bearer("k-red"))
        assert (await stage.ask(request)).status == 200
        levels.append(level(stage))

    usage = b'{"usage":{"prompt_tokens":40,"completion_tokens":10}}'
    for script in (say_ok, telling(10, 20), streaming(usage)):
        rooms: dict[str, Any] = {"retries": {"disable_retries": True}}
        play(scene, script, keys=KEYS, tenant_rules=rules(), **rooms)
    assert levels == [700, 970, 950]


def test_images_in_a_body_that_streams_are_not_taken_for_text() -> None:
    async def scene(stage: Stage) -> None:
        request = post(b"x" * 2_000_000, headers=bearer("k-red"))
        assert (await stage.ask(request)).status == 200

    play(scene, keys=KEYS, tenant_rules=rules(tokens=20_000))
