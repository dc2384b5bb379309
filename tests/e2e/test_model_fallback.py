"""--model-fallback: another model serves while nobody can serve the one asked for."""

from __future__ import annotations

import httpx
import pytest

from smgproxy.admission.budget_rules import ModelRule, Policy, Quota, TenantRules
from smgproxy.api.aliases import AliasOptions
from smgproxy.dispatch.retry import RetryOptions
from smgproxy.fleet.overload import OverloadOptions
from tests.e2e.asking import error_of, get
from tests.e2e.chains import CHAIN, SERVED, is_away, models_asked, play_chain, served
from tests.e2e.failing import FAST, ask, breaks_off, drops, outcome, received, says
from tests.e2e.stage import Stage
from tests.e2e.test_budgets import KEYS
from tests.e2e.test_keys import bearer
from tests.fakes.client import chat, post
from tests.fakes.worker import Connection, Received

# As a client may write it: what nobody changes must arrive so.
WRITTEN = (
    b'{ "zz" : 1.50e0, "model" :"a", "messages":[{"role":"user","content":"\\u00e4"}],'
    b'"temperature":0.30000000000000004,"seed":123456789012345678901234,"n" : 1}'
)
A, STREAM_OF_A = post(chat("a")), post(chat("a", stream=True))


def counts(stage: Stage) -> dict[tuple[str, str], int]:
    """The metric's samples that are not 0."""
    fallbacks = stage.gateway._fallbacks
    assert fallbacks is not None
    return {pair: count for pair, count in fallbacks.counts.items() if count}


# -- who serves ----------------------------------------------------------------------


def test_a_model_that_can_serve_does_and_nothing_is_said() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, post(WRITTEN))
        assert served(answer) == (200, None)
        assert received(stage) == [1, 0, 0]
        assert stage.worker.received[0].body == WRITTEN
        assert counts(stage) == {}

    play_chain(scene)


def test_its_fallback_serves_under_its_own_name_and_the_answer_says_so() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        answer = await ask(stage, post(WRITTEN))
        assert served(answer) == (200, "b")
        assert answer.get("x-smg-routed-worker-id") == stage.workers[1].url
        assert counts(stage) == {("a", "b"): 1}
        stats = stage.gateway.router_stats
        assert list(stats.requests) == [("a", "chat", False)], "as it was asked for"
        assert stage.records[1].requests == {"b": 1}, "as the worker was asked"

    play_chain(scene)


def test_a_name_that_only_a_worker_knows_has_the_chain_of_its_model() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].models = [{"id": "a", "aliases": ["short"]}]
        stage.gateway.registry.changed()
        assert served(await ask(stage, post(chat("short")))) == (200, None)
        is_away(stage, "a")
        assert served(await ask(stage, post(chat("short")))) == (200, "b")
        assert models_asked(stage) == [[b'"short"'], [b'"b"'], []]
        assert counts(stage) == {("a", "b"): 1}

    play_chain(scene)


def test_nothing_but_the_name_changes_in_the_body() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        await ask(stage, post(WRITTEN))
        [request] = stage.workers[1].received
        assert request.body == (
            b'{"zz":1.50e0,"model":"b",'
            b'"messages":[{"role":"user","content":"\\u00e4"}],'
            b'"temperature":0.30000000000000004,"seed":123456789012345678901234,"n":1}'
        )
        assert request.get("content-length") == str(len(request.body))

    play_chain(scene)


def test_the_model_serves_again_when_its_worker_is_back() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        assert served(await ask(stage, A)) == (200, "b")
        is_away(stage)
        assert served(await ask(stage, A)) == (200, None)
        assert received(stage) == [1, 1, 0]

    play_chain(scene)


def test_the_next_in_the_chain_serves_when_the_first_is_away_too() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a", "b")
        assert served(await ask(stage, A)) == (200, "c")
        assert models_asked(stage) == [[], [], [b'"c"']]

    play_chain(scene)


def test_when_all_are_away_the_error_is_that_of_the_model_asked_for() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, *"abc")
        answer = await ask(stage, A)
        assert outcome(answer) == (503, "no_available_workers")
        assert (answer.get("retry-after"), answer.get(SERVED)) == ("1", None)
        assert counts(stage) == {}

    play_chain(scene)


def test_a_model_without_any_worker_is_not_found_but_a_fallback_serves_it() -> None:
    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, A)) == (200, "c")
        stats = stage.gateway.router_stats
        assert list(stats.requests) == [("a", "chat", False)]
        is_away(stage, "c")
        answer = await ask(stage, A)
        assert outcome(answer) == (404, "model_not_found")
        assert "'a'" in error_of(answer)["message"]

    play_chain(scene, "c")


def test_models_without_a_chain_and_the_list_of_models_are_as_ever() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "b")
        answer = await ask(stage, post(chat("b")))
        assert outcome(answer) == (503, "no_available_workers")
        assert b'"id":"a"' not in (await ask(stage, get("/v1/models"))).body

    play_chain(scene, "bc")


def test_an_alias_is_resolved_first() -> None:
    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, post(chat("nick")))) == (200, None)
        is_away(stage, "a")
        assert served(await ask(stage, post(chat("nick")))) == (200, "b")
        assert models_asked(stage) == [[b'"a"'], [b'"b"'], []]
        assert counts(stage) == {("a", "b"): 1}

    play_chain(scene, aliases=AliasOptions(("nick=a",)))


# -- load is shed, not handed on -----------------------------------------------------


def test_overload_that_is_to_be_shed_is_shed() -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_overloaded(stage.records[0], True)
        answer = await ask(stage, A)
        assert outcome(answer) == (503, "worker_overload_protection_shed")
        assert received(stage) == [0, 0, 0]
        assert stage.gateway.router_stats.sheds["selection"] == 1

    play_chain(scene, overload=OverloadOptions(worker_overload_shed=True))


def test_a_fallback_that_would_shed_is_passed_over_and_nothing_was_shed() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        stage.gateway.registry.set_overloaded(stage.records[1], True)
        assert served(await ask(stage, A)) == (200, "c")
        assert stage.gateway.router_stats.sheds["selection"] == 0

    play_chain(scene, overload=OverloadOptions(worker_overload_shed=True))


def test_a_tenant_gets_no_model_that_its_budget_has_no_room_for() -> None:
    rule = ModelRule("b", False, "b", Quota(1000, 1))

    async def scene(stage: Stage) -> None:
        is_away(stage, "a", "c")
        red, blue = (post(chat("a"), headers=bearer(f"k-{t}")) for t in ("red", "blue"))
        assert served(await ask(stage, red)) == (200, "b")
        assert outcome(await ask(stage, red)) == (503, "no_available_workers")
        assert served(await ask(stage, blue)) == (200, "b")
        # Asked for by name it is the tenant's own limit.
        direct = await ask(stage, post(chat("b"), headers=bearer("k-red")))
        assert outcome(direct) == (429, "tenant_rate_limit_exceeded")
        is_away(stage, "a")
        assert served(await ask(stage, red)) == (200, "c")

    rules = TenantRules(Policy(Quota(1000, 100), (rule,)))
    play_chain(scene, keys=KEYS, tenant_rules=rules)


# -- between attempts ----------------------------------------------------------------


def test_an_open_breaker_is_enough() -> None:
    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, A)) == (500, None)
        assert served(await ask(stage, A)) == (200, "b")
        assert received(stage) == [1, 1, 0]

    play_chain(scene, "abc", says(500), breaker={"cb_failure_threshold": 1})


def test_a_worker_that_was_just_killed_costs_one_attempt() -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        for _ in range(2):
            assert served(await ask(stage, A)) == (200, "b")
        assert sum(stage.gateway.router_stats.retries.values()) == 2

    play_chain(scene, retries=FAST)


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_an_attempt_that_failed_is_made_again_at_the_fallback(status: int) -> None:
    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, A)) == (200, "b")
        assert received(stage) == [1, 1, 0]

    play_chain(scene, "abc", says(status), retries=FAST)


def test_another_worker_of_the_model_comes_before_the_fallback() -> None:
    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, A)) == (200, None)
        assert received(stage) == [1, 1, 0]

    play_chain(scene, "aab", says(503), retries=FAST)


def test_a_worker_that_is_merely_full_is_asked_again() -> None:
    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, A)) == (429, None)
        assert received(stage) == [5, 0, 0]

    play_chain(scene, "abc", says(429), retries=FAST)


def test_all_models_share_the_attempts_of_one_request() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, A)
        assert served(answer) == (503, None)
        # Each once; then nobody else is left, and it is the first one's turn again.
        assert received(stage) == [3, 1, 1]
        assert models_asked(stage) == [[b'"a"'] * 3, [b'"b"'], [b'"c"']]
        assert counts(stage) == {("a", "b"): 1, ("a", "c"): 1}

    play_chain(scene, "abc", *[says(503)] * 3, retries=FAST)


def test_with_one_attempt_a_failure_is_the_answer() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, A)
        assert outcome(answer) == (500, "call_upstream_request_error")
        assert received(stage)[1:] == [0, 0]

    play_chain(scene, "abc", drops, retries=RetryOptions(disable_retries=True))


def test_a_fallbacks_own_error_is_relayed_with_its_name() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        assert served(await ask(stage, A)) == (400, "b")

    play_chain(scene, "abc", says(200), says(400), retries=FAST)


# -- streams, protocols, headers -----------------------------------------------------


async def streams(connection: Connection, request: Received) -> None:
    await connection.start_stream()
    await connection.chunk(b"data: 1\n\n")
    await connection.chunk(b"data: [DONE]\n\n")
    await connection.end_stream()


def test_a_stream_is_served_by_the_fallback_too() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        answer = await ask(stage, STREAM_OF_A)
        assert served(answer) == (200, "b")
        assert answer.get("content-type") == "text/event-stream"
        assert answer.body == b"data: 1\n\ndata: [DONE]\n\n"

    play_chain(scene, "abc", streams, streams)


def test_a_stream_that_has_begun_stays_with_its_model() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, STREAM_OF_A)
        assert served(answer) == (200, None)
        assert answer.body.startswith(b"data: 1\n\n")
        assert b"error" in answer.body
        assert received(stage) == [1, 0, 0]

    play_chain(scene, "abc", breaks_off, streams, retries=FAST)


def test_an_http_2_client_gets_the_same() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        async with httpx.AsyncClient(http1=False, http2=True, trust_env=False) as http:
            answer = await http.post(
                f"http://127.0.0.1:{stage.port}/v1/chat/completions",
                content=chat("a"),
                headers={"content-type": "application/json"},
            )
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
        assert answer.headers[SERVED] == "b"
        assert models_asked(stage) == [[], [b'"b"'], []]

    play_chain(scene)


async def pretends(connection: Connection, request: Received) -> None:
    await connection.answer(b"{}", headers=f"{SERVED}: z\r\n")


@pytest.mark.parametrize("is_down", [False, True])
def test_a_worker_does_not_get_to_say_who_served(is_down: bool) -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, *"a" * is_down)
        answer = await ask(stage, A)
        assert answer.all(SERVED) == ["b"] * is_down

    play_chain(scene, "ab", pretends, pretends)


def test_web_pages_may_read_it() -> None:
    cors = {"cors_allowed_origins": ("https://a.example",)}

    async def scene(stage: Stage) -> None:
        answer = await ask(stage, A)
        assert answer.get("access-control-expose-headers") == (
            f"x-request-id,traceparent,tracestate,{SERVED}"
        )

    play_chain(scene, fallbacks=CHAIN, cors=cors)
