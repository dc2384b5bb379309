"""Where requests go: affinity, spilling, sticky sessions, targets and labels."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
import ujson

from smgproxy.cli import main
from smgproxy.fleet.worker import WorkerState
from smgproxy.routing.router import RoutingOptions
from smgproxy.settings import Settings
from tests.e2e.asking import get
from tests.e2e.failing import FAST, ask, outcome, received, says
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import Client, post
from tests.fakes.worker import Connection, Received, say_ok

# The policy that a gateway without flags has.
DEFAULT: dict[str, Any] = {"routing": RoutingOptions()}
THREE = (say_ok, say_ok, say_ok)


def policy(name: str) -> dict[str, Any]:
    """The room of settings."""
    return {"routing": {"policy": name}}


def said(*texts: str, **fields: object) -> bytes:
    """A chat of these messages, from the two sides in turn."""
    roles = ("user", "assistant")
    messages = [
        {"role": roles[turn % 2], "content": text} for turn, text in enumerate(texts)
    ]
    return post(ujson.dumps({"model": "m", "messages": messages, **fields}).encode())


def keyed(key: str, header: str = "X-SMG-Routing-Key") -> bytes:
    """A chat with a routing key."""
    return post(headers=f"{header}: {key}\r\n")


async def served(stage: Stage, requests: Iterable[bytes]) -> list[int]:
    """The number of the worker that answered each of them, one after the other."""
    urls = [worker.url for worker in stage.workers]
    numbers = []
    for request in requests:
        answer = await ask(stage, request)
        assert answer.status == 200
        numbers.append(urls.index(answer.get("x-smg-routed-worker-id") or ""))
    return numbers


# -- cache_aware ---------------------------------------------------------------------


def test_the_default_is_cache_aware() -> None:
    assert Settings().routing.policy == "cache_aware"


def test_a_conversation_stays_with_its_worker_and_conversations_spread() -> None:
    async def scene(stage: Stage) -> None:
        homes = set()
        for number in range(20):
            texts = [f"{number} " * 50]
            turns = []
            for turn in range(4):
                turns.append(said(*texts))
                texts += [f"answer {turn}", f"question {turn}"]
            numbers = set(await served(stage, turns))
            assert len(numbers) == 1
            homes |= numbers
        assert homes == {0, 1, 2}

    play(scene, *THREE, **DEFAULT)


def test_a_prompt_that_is_too_popular_spills_to_another_worker() -> None:
    ends: list[asyncio.Event] = []

    async def script(connection: Connection, request: Received) -> None:
        ends.append(asyncio.Event())
        await ends[-1].wait()
        await connection.answer(b"{}")

    async def scene(stage: Stage) -> None:
        clients: list[Client] = []
        for number in range(8):
            client = await stage.client()
            clients.append(client)
            await client.send(said("one long system prompt " * 20))
            await eventually(lambda: len(ends) == number + 1)
        # The eighth at once is the first to leave (contract, 5.10).
        assert sorted(received(stage)) == [0, 1, 7]
        for end in ends:
            end.set()
        for client in clients:
            assert (await client.answer()).status == 200
            client.close()

    play(scene, script, script, script, **DEFAULT)


def test_prompts_of_other_cache_salts_do_not_match() -> None:
    async def scene(stage: Stage) -> None:
        text = "the same words " * 20
        await served(stage, [said(text, cache_salt=f"s{n}") for n in range(5)])
        [one] = stage.gateway.router.policies()
        assert one.branches == {"expected_wait_fallback": 5}
        await served(stage, [said(text, cache_salt="s1")])
        assert one.branches == {"expected_wait_fallback": 5, "tree_match": 1}

    play(scene, *THREE, **DEFAULT)


def test_a_retry_leaves_the_prompts_worker_when_that_has_failed() -> None:
    async def scene(stage: Stage) -> None:
        stage.workers[0].script = stage.workers[1].script = say_ok
        [home] = await served(stage, [said("hello " * 20)])
        stage.workers[home].script = says(500)
        [other] = await served(stage, [said("hello " * 20)])
        assert other != home
        assert len(stage.workers[home].received) == 2

    play(scene, say_ok, say_ok, retries=FAST, **DEFAULT)


def test_the_metrics_page_tells_how_prompts_found_their_worker() -> None:
    async def scene(stage: Stage) -> None:
        await served(stage, [said("hello " * 20)] * 3)
        scraper = await Client.connect(stage.gateway._metrics.ports()[0])
        page = (await scraper.ask(get("/metrics"))).body.decode().splitlines()
        branch = "smg_cache_aware_policy_branch_total"
        assert f'{branch}{{branch="tree_match"}} 2.0' in page
        assert f'{branch}{{branch="expected_wait_fallback"}} 1.0' in page
        assert "smg_cache_aware_match_ratio_count 3.0" in page
        assert 'smg_cache_tree_chars{model="m"} 120.0' in page
        url = stage.worker.url
        assert f'smg_worker_cb_state{{worker="{url}"}} 0.0' in page
        scraper.close()

    play(scene, *THREE, **DEFAULT)


# -- sticky sessions -----------------------------------------------------------------

STICKY: dict[str, Any] = {"policies": {"routing_key_override": True}}


@pytest.mark.parametrize(
    "name", ["round_robin", "random", "cache_aware", "least_load", "prefix_hash"]
)
def test_a_key_keeps_its_worker_on_top_of_any_policy(name: str) -> None:
    async def scene(stage: Stage) -> None:
        for key in ("a", "b", "c"):
            assert len(set(await served(stage, [keyed(key)] * 5))) == 1

    play(scene, *THREE, **policy(name), **STICKY)


def test_requests_without_a_key_go_as_if_there_were_no_keys() -> None:
    async def scene(stage: Stage) -> None:
        assert await served(stage, [post()] * 4) == [0, 1, 2, 0]

    play(scene, *THREE, **STICKY)


def test_without_the_flag_a_key_is_nothing_to_round_robin() -> None:
    async def scene(stage: Stage) -> None:
        assert await served(stage, [keyed("a")] * 4) == [0, 1, 2, 0]

    play(scene, *THREE)


def test_turns_of_one_rid_share_a_worker_which_gets_the_whole_rid() -> None:
    async def scene(stage: Stage) -> None:
        rids = ["conv_t1", "conv_t2", "conv_t2_r1", "conv"]
        [home] = set(await served(stage, [said("hi", rid=rid) for rid in rids]))
        bodies = [ujson.loads(one.body) for one in stage.workers[home].received]
        assert [body["rid"] for body in bodies] == rids

    play(scene, *THREE, **STICKY)


def test_a_header_wins_over_the_rid() -> None:
    async def scene(stage: Stage) -> None:
        body = said("hi", rid="other").replace(
            b"\r\n\r\n", b"\r\nX-SMG-Routing-Key: mine\r\n\r\n", 1
        )
        [home, again] = await served(stage, [keyed("mine"), body])
        assert home == again
        [one] = stage.gateway.router.policies()
        assert getattr(one, "sources") == {"rid": 0, "header": 2}

    play(scene, *THREE, **STICKY)


@pytest.mark.parametrize(
    ("mode", "returns"), [("delegate", False), ("min_load", True), ("random", True)]
)
def test_a_key_whose_worker_is_away_moves_for_good_or_for_the_time(
    mode: str, returns: bool
) -> None:
    async def scene(stage: Stage) -> None:
        registry, records = stage.gateway.registry, stage.records
        [home] = await served(stage, [keyed("a")])
        registry.set_state(records[home], WorkerState.NOT_READY)
        [other] = await served(stage, [keyed("a")])
        assert other != home
        registry.set_state(records[home], WorkerState.READY)
        back = home if returns else other
        assert await served(stage, [keyed("a")] * 3) == [back] * 3

    policies = {"routing_key_override": True, "assignment_mode": mode}
    play(scene, *THREE, policies=policies)


def test_a_stickys_body_is_read_so_that_its_rid_is_seen() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        paths = stage.gateway.router_stats.body_paths
        assert paths == {("buffered", "routing_key_override"): 1}

    play(scene, **STICKY)


# -- manual, consistent_hashing ------------------------------------------------------


@pytest.mark.parametrize("name", ["manual", "consistent_hashing", "prefix_hash"])
def test_policies_of_keys_need_no_flag(name: str) -> None:
    async def scene(stage: Stage) -> None:
        for key in ("a", "b", "c"):
            assert len(set(await served(stage, [keyed(key)] * 5))) == 1

    play(scene, *THREE, **policy(name))


@pytest.mark.parametrize(
    ("index", "worker"), [("0", 0), ("1", 1), ("2", 2), ("00", 0), ("+1", 1)]
)
def test_a_target_is_an_index_into_the_available_workers(
    index: str, worker: int
) -> None:
    async def scene(stage: Stage) -> None:
        request = keyed(index, "X-SMG-Target-Worker")
        assert await served(stage, [request] * 3) == [worker] * 3

    play(scene, *THREE, **policy("consistent_hashing"))


@pytest.mark.parametrize("index", ["3", "-1", "x"])
def test_a_target_that_is_none_is_a_503_whatever_else_is_there(index: str) -> None:
    async def scene(stage: Stage) -> None:
        request = keyed(index, "X-SMG-Routing-Key: a\r\nX-SMG-Target-Worker")
        answer = await ask(stage, request)
        assert outcome(answer) == (503, "no_available_workers")
        assert answer.get("retry-after") == "1"
        assert received(stage) == [0, 0, 0]

    play(scene, *THREE, retries=FAST, **policy("consistent_hashing"))


def test_a_target_is_nothing_to_other_policies() -> None:
    async def scene(stage: Stage) -> None:
        request = keyed("7", "X-SMG-Target-Worker")
        assert await served(stage, [request] * 3) == [0, 1, 2]

    play(scene, *THREE)


# -- a model's own policy ------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "name", "expected"),
    [
        (("passthrough", ""), "passthrough", [2, 0]),
        (("", "passthrough"), "round_robin", [1, 1]),
        (("fastest", ""), "round_robin", [1, 1]),
    ],
)
def test_the_label_of_a_models_first_worker_is_its_policy(
    labels: tuple[str, str], name: str, expected: list[int]
) -> None:
    async def scene(stage: Stage) -> None:
        registry, records = stage.gateway.registry, stage.records
        for record in records:
            registry.remove(record)
        for record, label in zip(records, labels):
            record.is_removed = False
            record.labels = {"policy": label} if label else {}
            registry.add(record)
        for _ in range(2):
            await ask(stage)
        assert received(stage) == expected
        assert {key for one in records for key in one.selections} == {("m", name)}

    play(scene, say_ok, say_ok)


# -- every policy --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("cache_aware", "consistent_hashing", "least_load", "manual", "passthrough"),
        *("power_of_two", "prefix_hash", "random", "round_robin"),
    ],
)
def test_no_policy_picks_who_is_not_ready(name: str) -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        numbers = await served(stage, [keyed(str(number)) for number in range(6)])
        assert 0 not in numbers
        assert all(record.load == 0 for record in stage.records)

    play(scene, *THREE, **policy(name))


def test_power_of_two_with_one_worker_does_not_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--policy", "power_of_two", "--worker-urls", "http://127.0.0.1:1"]
    assert main(["launch", *flags]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "Power-of-two policy requires at least 2 workers" in err
