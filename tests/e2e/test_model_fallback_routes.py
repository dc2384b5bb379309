"""Fallbacks of models on every route, and in a gateway as a user starts it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import ujson

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.routing.fallback import FallbackOptions
from tests.e2e.chains import SERVED, is_away, models_asked, play_chain, served
from tests.e2e.failing import ask, outcome, received
from tests.e2e.forms import LARGE, form, request
from tests.e2e.process import MODEL, RunningGateway
from tests.e2e.stage import Stage
from tests.e2e.test_decisions import ask as decisions
from tests.e2e.test_decisions import sglang
from tests.e2e.uploads import body_paths
from tests.fakes.client import BODIES, Client, chat, post
from tests.fakes.websocket import RealtimeWorker, SocketClient, echo, upgrade

MIB = 1024 * 1024
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("path", BODIES)
def test_every_route_whose_body_names_a_model_falls_back(path: str) -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        body = BODIES[path].replace(b'"m"', b'"a"')
        assert served(await ask(stage, post(body, path))) == (200, "b")
        [got] = stage.workers[1].received
        assert got.body == body.replace(b'"a"', b'"b"', 1)

    play_chain(scene, "ab")


def test_a_request_without_a_model_goes_to_any_worker_as_ever() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        body = b'{"text":"hi"}'
        assert served(await ask(stage, post(body, "/generate"))) == (200, None)
        assert stage.workers[1].received[0].body == body

    play_chain(scene, "ab")


def test_a_worker_that_speaks_another_language_is_asked_by_its_own_name() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[1].runtime_type = "sglang"
        is_away(stage, "a")
        assert served(await ask(stage, decisions(model="a"))) == (201, "b")
        assert models_asked(stage) == [[], [b'"b"']]

    play_chain(scene, "ab", sglang, sglang)


# -- bodies that would stream --------------------------------------------------------


@pytest.mark.parametrize("retries", [True, False])
def test_a_long_body_is_read_so_that_its_model_can_be_another(retries: bool) -> None:
    text = "x" * (2 * MIB)
    options = RetryOptions(disable_retries=not retries)

    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, post(chat("a", zz=text)))) == (200, "b")
        [got] = stage.worker.received
        body = ujson.loads(got.body)
        assert (body["model"], body["zz"]) == ("b", text)
        assert body_paths(stage) == {("buffered", "model_fallback"): 1}

    play_chain(scene, "b", retries=options)


def test_without_chains_it_streams() -> None:
    async def scene(stage: Stage) -> None:
        assert served(await ask(stage, post(chat("a", zz="x" * 2 * MIB)))) == (
            200,
            None,
        )
        assert body_paths(stage) == {("streamed", "retry_forfeited"): 1}

    play_chain(scene, "b", fallbacks=FallbackOptions(), retries=RetryOptions())


# -- forms and sessions --------------------------------------------------------------


FILE = ("file", LARGE)
ASKED = ("model", b"a")
FORMS = {
    "small": (("file", b"sound"), ASKED),
    "spooled": (FILE, ASKED),
    "passed on": (ASKED, FILE, ASKED),
}


@pytest.mark.parametrize("fields", list(FORMS.values()), ids=list(FORMS))
def test_a_form_with_audio_names_the_model_that_serves(
    fields: tuple[tuple[str, bytes], ...],
) -> None:
    async def scene(stage: Stage) -> None:
        asked = request(form(*fields))
        assert served(await ask(stage, asked)) == (200, None)
        is_away(stage, "a")
        assert served(await ask(stage, asked)) == (200, "b")
        for worker, name in zip(stage.workers, (b"a", b"b")):
            [got] = worker.received
            assert b'name="model"\r\n\r\n' + name + b"\r\n" in got.body
        is_away(stage, "a", "b")
        assert outcome(await ask(stage, asked)) == (503, "no_available_workers")

    play_chain(scene, "ab")


def test_a_realtime_session_is_opened_with_the_model_that_serves() -> None:
    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        client = await SocketClient.open(stage.port, "?model=a")
        assert client.answer.get(SERVED) == "b"
        await client.text("hello")
        assert (await client.read()).payload == b"hello"
        await client.leave()
        [got] = stage.workers[1].received
        assert got.path == "/v1/realtime?model=b"
        is_away(stage)
        client = await SocketClient.open(stage.port, "?model=a")
        assert client.answer.get(SERVED) is None
        await client.leave()
        is_away(stage, *"abc")
        raw = await Client.connect(stage.port)
        refused = await raw.ask(upgrade("?model=a"))
        assert outcome(refused) == (503, "no_available_workers")
        raw.close()

    play_chain(scene, "ab", echo, echo, kind=RealtimeWorker)


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/v1/realtime/sessions", "application/json", b'{"model":"a"}'),
        ("/v1/realtime/calls?model=a", "application/sdp", b"v=0\r\ns=-\r\n"),
    ],
)
def test_realtime_bodies_go_on_as_they_are_so_no_other_model_serves(
    path: str, kind: str, body: bytes
) -> None:
    asked = (
        f"POST {path} HTTP/1.1\r\nHost: g\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body

    async def scene(stage: Stage) -> None:
        is_away(stage, "a")
        assert outcome(await ask(stage, asked)) == (503, "no_available_workers")
        assert received(stage) == [0, 0]

    play_chain(scene, "ab", kind=RealtimeWorker)


# -- a gateway as a user starts it ---------------------------------------------------


def test_a_flag_is_all_it_takes(tmp_path: Path) -> None:
    flags = ("--simulated-workers", "1", "--model-fallback", f"big=none,{MODEL}")
    with RunningGateway(tmp_path, *flags, "--log-json") as gateway:
        gateway.wait_until()
        answer = httpx.post(
            f"{gateway.url}/v1/chat/completions", content=chat("big"), headers=JSON
        )
        assert (answer.status_code, answer.headers[SERVED]) == (200, MODEL)
        assert answer.json()["model"] == MODEL
        page = httpx.get(gateway.metrics_url).text
        for name, count in (("none", 0), (MODEL, 1)):
            assert (
                f'smg_model_fallback_total{{model="big",served="{name}"}} {count}'
                in page
            )
        assert gateway.stop() == 0
        assert f'"served_model":"{MODEL}"' in gateway.err
