"""Calls of a worker: its connection, the one second send, and what is shed."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from smgproxy.core.errors import OverloadShed, SendFailed, UpstreamError
from smgproxy.core.flow import Source
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.fleet.overload import OverloadLimits
from smgproxy.fleet.shedding import Shedding
from smgproxy.upstream.calls import Fetched, Upstream
from smgproxy.upstream.http1 import Http1Leg, WorkerConnection
from smgproxy.upstream.leg import Leg
from tests.fakes.clock import FakeClock
from tests.fakes.transport import FakeTransport
from tests.upstream.stage import OK, STREAM, FakeLoop, Plant, ask


class Scene:
    """An Upstream on a running loop, whose dials give fake transports."""

    def __init__(self, clock: FakeClock) -> None:
        self.running = asyncio.get_running_loop()
        self.loop = FakeLoop()
        self.plant = Plant(self.loop)
        self.clock = clock
        self.shedding = Shedding(is_asked_for=True, retry_secs=3)
        # Whether the worker reports too much to do while it is dialled.
        self.is_flagged_late = False
        self.upstream = Upstream(
            cast(asyncio.AbstractEventLoop, self),
            lambda alpn: ssl.create_default_context(),
            self.shedding,
        )

    def create_future(self) -> asyncio.Future[object]:
        """A future that can be waited for."""
        return self.running.create_future()

    async def create_connection(
        self, make: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> object:
        """A fake transport."""
        self.plant.worker.is_overloaded = self.is_flagged_late
        return await self.loop.create_connection(make, host, port)

    def call_later(self, delay: float, callback: Callable[[], object]) -> object:
        """The fake clock's."""
        return self.clock.call_later(delay, callback)

    def call_soon(self, callback: Callable[[], object]) -> object:
        """The running loop's."""
        return self.running.call_soon(callback)

    def fetch(self, limit_bytes: int = 100) -> asyncio.Task[Fetched]:
        """A request on its way."""
        return self.running.create_task(
            self.upstream.fetch(
                *(self.plant.worker, "POST", "/x"),
                timeout_secs=60,
                limit_bytes=limit_bytes,
            )
        )

    def call(self, model: str = "m") -> asyncio.Task[tuple[Leg, ResponseHead]]:
        """A client's request on its way."""
        request = ask()
        request.model = model
        return self.running.create_task(
            self.upstream.call(self.plant.worker, request, 60)
        )

    def upload(self, body: Source) -> asyncio.Task[tuple[Leg, ResponseHead]]:
        """A client's request on its way, its body to come from ``body``."""
        request = WorkerRequest(b"POST", b"/v1/x", [], model="m")
        return self.running.create_task(
            self.upstream.upload(self.plant.worker, request, body, 1_000_000, 60)
        )

    async def transport(self, number: int) -> FakeTransport:
        """The connection dialled as ``number``, once a request is on it."""
        async with asyncio.timeout(5):
            while len(self.loop.transports) <= number or not (
                self.loop.transports[number].syscalls
            ):
                await asyncio.sleep(0)
        return self.loop.transports[number]

    def counts(self) -> tuple[int, int]:
        """Idle and busy connections."""
        return self.upstream.counts()["http://w:80"]


@pytest.fixture
def play(clock: FakeClock) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    """Run a scene and see that nothing of it is left."""

    def run(act: Callable[[Scene], Awaitable[None]]) -> None:
        async def whole() -> None:
            scene = Scene(clock)
            try:
                await asyncio.wait_for(act(scene), 10)
                assert scene.counts()[1] == 0
            finally:
                scene.upstream.close()
                scene.loop.close()
            assert clock.pending == 0

        asyncio.run(whole())

    return run


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


def test_a_second_request_uses_the_first_ones_connection(play: Play) -> None:
    async def act(scene: Scene) -> None:
        for number in (1, 2):
            task = scene.fetch()
            transport = await scene.transport(0)
            while len(transport.syscalls) < number:
                await asyncio.sleep(0)
            transport.peer_sends(OK)
            assert (await task).body == b"ok"
        assert len(scene.loop.dialled) == 1
        assert scene.upstream.resends == 0

    play(act)


def test_a_send_that_dies_unanswered_is_repeated_once_on_a_new_connection(
    play: Play,
) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        first = await scene.transport(0)
        first.peer_resets()
        second = await scene.transport(1)
        assert second.syscalls == first.syscalls
        second.peer_sends(OK)
        assert (await task).body == b"ok"
        assert scene.upstream.resends == 1

    play(act)


def test_the_second_send_is_the_last(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        for number in (0, 1):
            (await scene.transport(number)).peer_resets()
        with pytest.raises(SendFailed):
            await task
        assert len(scene.loop.dialled) == 2
        assert scene.upstream.resends == 1

    play(act)


def test_a_refused_dial_is_tried_once_more(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.loop.refusals = [ConnectionRefusedError("no")]
        task = scene.fetch()
        (await scene.transport(0)).peer_sends(OK)
        assert (await task).body == b"ok"
        assert len(scene.loop.dialled) == 2

    play(act)


@pytest.mark.parametrize("said", [b"H", OK[:20], b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_one_byte_of_an_answer_forbids_a_second_send(play: Play, said: bytes) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        transport = await scene.transport(0)
        transport.peer_sends(said)
        transport.peer_resets()
        with pytest.raises(UpstreamError):
            await task
        assert len(scene.loop.dialled) == 1

    play(act)


def test_a_timeout_is_not_repeated_and_is_found_by_the_sweep(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        transport = await scene.transport(0)
        scene.clock.advance(61)
        with pytest.raises(UpstreamError) as caught:
            await task
        assert caught.value.status == 504
        assert transport.is_closing()
        assert len(scene.loop.dialled) == 1

    play(act)


def test_a_caller_that_gives_up_cuts_its_connection(play: Play) -> None:
    async def act(scene: Scene) -> None:
        for said in (b"", STREAM):
            task = scene.fetch()
            number = len(scene.loop.dialled)
            transport = await scene.transport(number)
            if said:
                transport.peer_sends(said)
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert transport.is_closing()
            assert scene.counts() == (0, 0)

    play(act)


def test_an_answer_over_the_limit_is_an_error_and_cuts(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch(limit_bytes=1)
        transport = await scene.transport(0)
        transport.peer_sends(STREAM, b"2\r\nok\r\n")
        with pytest.raises(UpstreamError, match="too large"):
            await task
        assert transport.is_closing()

    play(act)


@pytest.mark.parametrize("said", [b"", b"H", STREAM, b"rubbish\r\n\r\n"])
def test_a_failed_call_leaves_no_cycle(play: Play, said: bytes) -> None:
    async def act(scene: Scene) -> None:
        gc.collect()
        gc.disable()
        try:
            task = scene.fetch()
            transport = await scene.transport(0)
            if said:
                transport.peer_sends(said)
                await asyncio.sleep(0)
            scene.clock.advance(61)
            try:
                await task
            except UpstreamError:
                pass
            transport.turn()
            del task, transport
            scene.loop.transports.clear()
            await asyncio.sleep(0)
            ours = (WorkerConnection, Http1Leg)
            assert [one for one in gc.get_objects() if isinstance(one, ours)] == []
        finally:
            gc.enable()

    play(act)


@pytest.mark.parametrize("is_http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("is_upload", [False, True], ids=["whole", "upload"])
def test_a_worker_flagged_while_it_is_dialled_gets_nothing(
    play: Play, is_http2: bool, is_upload: bool
) -> None:
    async def act(scene: Scene) -> None:
        scene.plant.worker.http2 = is_http2
        scene.is_flagged_late = True
        body = Source()
        task = scene.upload(body) if is_upload else scene.call()
        with pytest.raises(OverloadShed) as caught:
            await task
        assert caught.value.message == (
            "Worker 'http://w:80' for model 'm' became overloaded before dispatch"
        )
        assert dict(caught.value.headers) == {b"retry-after": b"3"}
        assert caught.value.stage == "dispatch"
        assert len(scene.loop.dialled) == 1  # and no second send
        # What was dialled is kept for whoever comes when it has less to do.
        assert scene.counts() == (1, 0)
        [transport] = scene.loop.transports
        assert b"/v1/x" not in b"".join(transport.syscalls)

    play(act)


def test_a_connection_dialled_for_a_shed_request_carries_the_next_one(
    play: Play,
) -> None:
    async def act(scene: Scene) -> None:
        scene.is_flagged_late = True
        with pytest.raises(OverloadShed):
            await scene.call()
        task = scene.call()  # an idle connection: it is not looked at anew
        transport = await scene.transport(0)
        transport.peer_sends(OK)
        leg, head = await task
        assert head.status == 200
        leg.abort(UpstreamError("seen"))
        assert len(scene.loop.dialled) == 1

    play(act)


@pytest.mark.parametrize("is_asked_for", [False, True])
@pytest.mark.parametrize("model", ["", "m"])
@pytest.mark.parametrize("own", [None, OverloadLimits()])
def test_only_requests_that_may_be_shed_are(
    play: Play, is_asked_for: bool, model: str, own: OverloadLimits | None
) -> None:
    async def act(scene: Scene) -> None:
        scene.shedding.is_asked_for = is_asked_for
        scene.plant.worker.overload = own
        scene.is_flagged_late = True
        task = scene.call(model)
        if model and (is_asked_for or own):
            with pytest.raises(OverloadShed):
                await task
            return
        (await scene.transport(0)).peer_sends(OK)
        leg, head = await task
        assert head.status == 200
        leg.abort(UpstreamError("seen"))

    play(act)


def test_the_gateways_own_questions_are_never_shed(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.is_flagged_late = True
        task = scene.fetch()
        (await scene.transport(0)).peer_sends(OK)
        assert (await task).body == b"ok"

    play(act)


def test_a_worker_that_left_is_forgotten_once_its_legs_are_over(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        transport = await scene.transport(0)
        scene.plant.worker.is_removed = True
        scene.upstream.forget(scene.plant.worker)
        scene.clock.advance(1)
        assert scene.counts() == (0, 1)
        transport.peer_sends(OK)
        assert (await task).body == b"ok"
        assert scene.counts() == (0, 0)

    play(act)
