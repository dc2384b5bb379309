"""``--dp-aware``: the ranks of one engine as workers, from registration to answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import ujson

from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.spec import WorkerSpec
from smgproxy.routing.router import RoutingOptions
from tests.e2e.asking import check_envelope, get
from tests.e2e.forms import ask as transcription
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import Answer, Client, post
from tests.fakes.worker import Connection, FakeWorker, Received

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.10'


async def registered(stage: Stage) -> list[str]:
    """Register the stage's worker as its two ranks; their URLs."""
    stage.worker.dp_size = 2
    stage.gateway.registry.remove(stage.records[0])
    stage.gateway.fleet.add(WorkerSpec(stage.worker.url))
    await eventually(lambda: len(stage.records) == 2)
    return [one.url for one in stage.records]


async def ask_chat(stage: Stage, rest: bytes = b"}", headers: str = "") -> Answer:
    return await stage.ask(post(CHAT + rest, headers=headers))


def ranks_asked_for(worker: FakeWorker) -> list[int]:
    return [ujson.loads(one.body)["data_parallel_rank"] for one in worker.received]


def play_ranks(
    scene: Callable[[Stage], Awaitable[None]],
    *scripts: Callable[[Connection, Received], Awaitable[None]],
    policy: str = "round_robin",
    **rooms: Any,
) -> None:
    rooms.setdefault("fleet", FleetOptions(dp_aware=True))
    play(scene, *scripts, routing=RoutingOptions(policy), **rooms)


def test_ranks_take_turns_and_the_engine_is_told_whose_it_is() -> None:
    async def scene(stage: Stage) -> None:
        urls = await registered(stage)
        assert urls == [f"{stage.worker.url}@0", f"{stage.worker.url}@1"]
        answers = [await ask_chat(stage) for _ in range(4)]
        assert [one.get("x-smg-routed-worker-id") for one in answers] == urls * 2
        assert ranks_asked_for(stage.worker) == [0, 1, 0, 1]

    play_ranks(scene)


def test_the_rank_stands_last_and_the_rest_is_the_clients_own_bytes() -> None:
    async def scene(stage: Stage) -> None:
        await registered(stage)
        await ask_chat(stage, b',"x":1.0 }')
        [received] = stage.worker.received
        assert received.body == CHAT + b',"x":1.0 ,"data_parallel_rank":0}'
        assert received.get("content-length") == str(len(received.body))
        assert received.get("host") == f"127.0.0.1:{stage.worker.port}"

    play_ranks(scene)


def test_a_rank_that_the_client_chose_gives_way() -> None:
    async def scene(stage: Stage) -> None:
        await registered(stage)
        await ask_chat(stage, b',"data_parallel_rank":7}')
        assert stage.worker.received[0].body == CHAT + b',"data_parallel_rank":0}'

    play_ranks(scene)


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v1/completions", b'{"model":"m","prompt":"hi"}'),
        ("/generate", b'{"text":"hi"}'),
        ("/v1/messages", CHAT + b',"max_tokens":1}'),
        ("/v1/embeddings", b'{"model":"m","input":"hi"}'),
        ("/v1/rerank", b'{"model":"m","query":"q","documents":["d"]}'),
        ("/v1/classify", b'{"model":"m","input":"hi"}'),
        ("/v1/responses", b'{"model":"m","input":"hi"}'),
    ],
)
def test_every_json_route_tells_the_rank(path: str, body: bytes) -> None:
    async def scene(stage: Stage) -> None:
        await registered(stage)
        await stage.ask(post(body, path))
        [received] = stage.worker.received
        assert received.body == body[:-1] + b',"data_parallel_rank":0}'

    play_ranks(scene)


def test_what_is_translated_for_an_engine_tells_it_the_rank_too() -> None:
    async def scene(stage: Stage) -> None:
        await registered(stage)
        question = b'{"type":"predicate","instructions":"Is it?"}'
        body = b'{"model":"m","input":"hi","questions":[%b]}' % question
        await stage.ask(post(body, "/v1/decisions"))
        [received] = stage.worker.received
        assert received.path == "/v1/systemone"
        assert ranks_asked_for(stage.worker) == [0]

    play_ranks(scene)


def test_a_form_has_no_place_for_a_rank_and_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        await registered(stage)
        for size in (10, 200_000):  # kept, and to be passed on
            fields = (("model", b"m"), ("file", b"x" * size))
            answer = await stage.ask(transcription(*fields))
            check_envelope(answer, 400, "dp_aware_not_supported")
        assert stage.worker.received == []

    play_ranks(scene)


def test_a_target_is_an_index_of_ranks_and_a_url_is_none() -> None:
    async def scene(stage: Stage) -> None:
        urls = await registered(stage)
        for place in (1, 0):
            answer = await ask_chat(stage, headers=f"X-SMG-Target-Worker: {place}\r\n")
            assert answer.get("x-smg-routed-worker-id") == urls[place]
        for no_index in ("@1", urls[1], "2"):
            head = f"X-SMG-Target-Worker: {no_index}\r\n"
            answer = await ask_chat(stage, headers=head)
            assert answer.get("x-smg-error-code") == "no_available_workers"

    play_ranks(scene, policy="consistent_hashing")


def test_a_body_of_any_size_is_read_because_it_is_edited() -> None:
    async def scene(stage: Stage) -> None:
        await registered(stage)
        large = b',"pad":"' + b"x" * 2_000_000 + b'"}'
        assert (await ask_chat(stage, large)).status == 200
        assert stage.worker.received[0].body.endswith(b',"data_parallel_rank":0}')
        paths = stage.gateway.router_stats.body_paths
        assert paths == {("buffered", "worker_mutates_body"): 1}

    play_ranks(scene)


def test_a_failed_rank_is_asked_no_more_and_the_other_is() -> None:
    async def first_rank_fails(connection: Connection, request: Received) -> None:
        is_first = request.body.endswith(b":0}")
        await connection.answer(b"{}", 500 if is_first else 200)

    async def scene(stage: Stage) -> None:
        urls = await registered(stage)
        answer = await ask_chat(stage)
        assert (answer.status, answer.get("x-smg-routed-worker-id")) == (200, urls[1])
        assert ranks_asked_for(stage.worker) == [0, 1]
        failures = [one.breaker.failure_streak for one in stage.records]
        assert failures == [1, 0]

    play_ranks(scene, first_rank_fails, retries={"retry_max_retries": 5})


def test_ranks_are_listed_with_their_engine_and_leave_one_by_one() -> None:
    async def scene(stage: Stage) -> None:
        urls = await registered(stage)
        listed = ujson.loads((await stage.ask(get("/workers"))).body)["workers"]
        fields = ("url", "dp_base_url", "dp_rank", "dp_size")
        assert [tuple(one[name] for name in fields) for one in listed] == [
            (url, stage.worker.url, rank, 2) for rank, url in enumerate(urls)
        ]
        path = f"/workers/{listed[0]['id']}"
        assert (await stage.ask(get(path, "DELETE"))).status == 202
        await eventually(lambda: [one.url for one in stage.records] == urls[1:])
        assert (await ask_chat(stage)).get("x-smg-routed-worker-id") == urls[1]

    fleet = FleetOptions(dp_aware=True, drain_settle_secs=0)
    play_ranks(scene, fleet=fleet)


def test_each_rank_has_its_share_of_the_engines_report() -> None:
    async def scene(stage: Stage) -> None:
        stage.worker.loads = (
            b'{"loads":[{"dp_rank":0,"num_waiting_reqs":9},{"dp_rank":1}]}'
        )
        urls = await registered(stage)
        await eventually(lambda: all(one.engine_load for one in stage.records))
        polls = [one for one in stage.worker.probed if one.path.startswith("/loads")]
        assert len(polls) == 1
        shown = ujson.loads((await stage.ask(get("/loads"))).body)
        assert shown["dp_rank_count"] == 2
        assert [(one["worker"], one["dp_rank"]) for one in shown["loads"]] == [
            (urls[0], 0),
            (urls[1], 1),
        ]
        # Nine wait at the first rank: that is overload, and the other gets all.
        for _ in range(3):
            answer = await ask_chat(stage)
            assert answer.get("x-smg-routed-worker-id") == urls[1]

    play_ranks(scene)


def test_series_of_a_rank_bear_its_name() -> None:
    async def scene(stage: Stage) -> None:
        stage.worker.loads = (
            b'{"loads":[{"dp_rank":0},{"dp_rank":1,"num_running_reqs":5}]}'
        )
        urls = await registered(stage)
        await eventually(lambda: all(one.engine_load for one in stage.records))
        await ask_chat(stage)
        scraper = await Client.connect(stage.gateway._metrics.ports()[0])
        page = (await scraper.ask(get("/metrics"))).body.decode().splitlines()
        scraper.close()
        assert f'smg_worker_requests_total{{model="m",worker="{urls[0]}"}} 1.0' in page
        for rank, running in enumerate((0, 5)):
            labels = f'dp_rank="{rank}",model="m",worker="{urls[rank]}"'
            assert f"smg_engine_running_requests{{{labels}}} {running}.0" in page

    play_ranks(scene)


def test_without_the_flag_an_engine_is_one_worker_and_bodies_are_as_sent() -> None:
    async def scene(stage: Stage) -> None:
        stage.worker.dp_size = 2
        stage.gateway.registry.remove(stage.records[0])
        stage.gateway.fleet.add(WorkerSpec(stage.worker.url))
        await eventually(lambda: [one.url for one in stage.records])
        assert [one.url for one in stage.records] == [stage.worker.url]
        await ask_chat(stage)
        assert stage.worker.received[0].body == CHAT + b"}"

    play(scene)
