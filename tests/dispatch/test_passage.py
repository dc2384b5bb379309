"""Forms that go on while they come in: smgproxy/dispatch/passage.py."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.api.transcription import BadForm, TranscriptionForm
from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Hold, Source
from smgproxy.core.message import RequestHead
from smgproxy.dispatch.passage import KEPT_BYTES, FormSink, Passage
from smgproxy.dispatch.spool import Spool
from tests.core.scripted import ScriptedSink
from tests.e2e.forms import FORM_TYPE, form, form_behind

HEAD = RequestHead("POST", "/", "", [(b"content-type", FORM_TYPE.encode())])
SOUND = (b"\r\n--bx\r\n-" + b"." * 230) * (KEPT_BYTES // 120)
FIELDS: list[tuple[str, bytes]] = [
    *(("language", b"de"), ("model", b"m"), ("file", SOUND), ("prompt", b"--b")),
]
BODY = form(*FIELDS)


class Reading:
    """A client's body, the form read of it, and a worker that takes what goes on."""

    def __init__(self) -> None:
        self.body = Source()
        self.spool = Spool()
        self.form = TranscriptionForm(self.spool)
        exchange = Exchange(HEAD, self.body, ScriptedSink(), "", 0.0)
        loop = asyncio.get_running_loop()
        self.sink = FormSink(self.form, self.spool, exchange, 1 << 20, loop)
        self.worker = ScriptedSink()
        self.passage: Passage | None = None
        self.task = loop.create_task(self.run())

    async def run(self) -> bool:
        """Whether the form was read whole, as nothing could go on."""
        if await self.sink.read(self.body):
            return True
        head = self.form.head(b"B")
        self.passage = self.sink.pass_on(head, lambda: self.form.tail("m", b"B"))
        self.passage.join(self.worker)
        return False

    async def feed(self, *pieces: bytes, end: bool = False) -> None:
        """The client sends, a piece in a turn of the loop."""
        for at, piece in enumerate(pieces, 1):
            await asyncio.sleep(0)
            self.body.deliver(piece, end and at == len(pieces))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def play(*pieces: bytes, end: bool = False) -> Reading:
    """What became of a form that came in these pieces."""

    async def run() -> Reading:
        reading = Reading()
        await reading.feed(*pieces, end=end)
        if end:
            await reading.task
        reading.task.cancel()
        reading.spool.close()
        return reading

    return asyncio.run(run())


@given(st.lists(st.integers(0, len(BODY)), max_size=6))
def test_a_worker_gets_the_form_however_its_pieces_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(BODY)]
    pieces = [BODY[a:b] for a, b in zip(edges, edges[1:])]
    reading = play(*pieces, end=True)
    if reading.passage is None:
        assert reading.task.result()
        reading.form.check()
        assert reading.spool.size == len(SOUND)
        return
    sent = [FIELDS[2], FIELDS[1], FIELDS[0], FIELDS[3]]
    assert b"".join(reading.worker.pieces) == form_behind(b"--B", *sent)
    assert reading.worker.is_ended and reading.passage.size == len(SOUND)


def test_one_read_brings_a_worker_one_piece() -> None:
    at = KEPT_BYTES + 500
    reading = play(BODY[:at], BODY[at : at + 50], BODY[at + 50 :], end=True)
    assert len(reading.worker.pieces) == 4  # the head's, two, and the tail


def test_a_client_is_held_until_its_file_can_go_on() -> None:
    async def run() -> None:
        reading = Reading()
        reading.task.cancel()
        waiting = asyncio.ensure_future(reading.sink.read(reading.body))
        await reading.feed(BODY[: KEPT_BYTES + 500])
        assert await waiting is False
        assert reading.body.is_held
        passage = reading.sink.pass_on(b"", bytes)
        assert reading.body.is_held, "its worker is not there yet"
        passage.join(reading.worker)
        assert not reading.body.is_held
        passage.hold(Hold.SINK_FULL)
        assert reading.body.is_held
        reading.spool.close()

    asyncio.run(run())


def test_a_fault_is_told_over_what_waits_for_the_worker() -> None:
    reading = play(BODY[: KEPT_BYTES + 500])
    passage, worker = reading.passage, reading.worker
    assert passage is not None
    passage.hold(Hold.SINK_FULL)
    passage.deliver(b"waits")
    before = list(worker.pieces)
    fault = BadForm("no")
    passage.fail(fault)
    assert worker.errors == [fault] and worker.pieces == before


def test_a_second_file_cannot_replace_what_has_gone_on() -> None:
    at = KEPT_BYTES + 500
    reading = play(BODY[:at], BODY[at:-7], form(("file", b"s")), end=True)
    [error] = reading.worker.errors
    assert isinstance(error, BadForm) and not reading.worker.is_ended


def test_a_worker_that_takes_no_more_stops_its_client() -> None:
    reading = play(BODY[: KEPT_BYTES + 500])
    assert reading.passage is not None
    reading.passage.abort(RuntimeError())
    assert reading.body.is_ended
    before = list(reading.worker.pieces)
    reading.sink.write(BODY, True)
    assert reading.worker.pieces == before


@pytest.mark.parametrize(
    "before", [[], [("model", b"m"), ("temperature", b"9")], [("model", b" ")]]
)
def test_a_file_before_its_model_or_behind_a_fault_does_not_go_on(
    before: list[tuple[str, bytes]],
) -> None:
    body = form(*before, ("file", SOUND), *FIELDS[:2])
    assert (
        play(*[body[at : at + 1000] for at in range(0, len(body), 1000)]).passage
        is None
    )
