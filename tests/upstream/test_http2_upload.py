"""Bodies of requests on their way over a shared connection."""

from __future__ import annotations

from smgproxy.core.errors import BodyAborted, UploadTimeout
from smgproxy.core.flow import Source
from smgproxy.upstream.http2_leg import Http2Leg
from smgproxy.wire.http2 import CANCEL
from tests.fakes.clock import FakeClock
from tests.upstream.http2_stage import SharedLine
from tests.upstream.stage import FakeLoop, ask


def error_of(leg: Http2Leg) -> BaseException:
    error = leg.head.exception()
    assert error is not None
    return error


class Feed(Source):
    """A client's body; what is asked of it is in ``log``."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def on_pause(self) -> None:
        self.log.append("pause")

    def on_resume(self) -> None:
        self.log.append("resume")

    def on_abort(self, error: Exception) -> None:
        self.log.append("abort")


def feed(line: SharedLine, leg: Http2Leg) -> Feed:
    source = Feed()
    assert leg.request is not None
    source.join(leg.request)
    return source


def test_a_body_beyond_the_windows_waits_and_arrives_in_order(
    shared: SharedLine,
) -> None:
    body = bytes(range(256)) * 1000
    leg = shared.send(body)
    while len(shared.bodies()[1]) < len(body):
        before = len(shared.bodies()[1])
        shared.worker.increment_flow_control_window(10_000)
        shared.worker.increment_flow_control_window(10_000, 1)
        shared.turn()
        assert len(shared.bodies()[1]) - before <= 10_000
    assert shared.bodies()[1] == body
    assert shared.ended() == [1]
    shared.answer(1)
    assert leg.take_all() == b"ok"


def test_tiny_windows_set_by_the_worker_count_at_once(
    loop: FakeLoop, clock: FakeClock
) -> None:
    line = SharedLine(loop, {4: 10})
    line.turn()
    line.send(b"0123456789abcdef")
    assert line.bodies()[1] == b"0123456789"
    line.worker.increment_flow_control_window(6, 1)
    line.turn()
    assert line.bodies()[1] == b"0123456789abcdef"
    line.pool.cut_all()
    line.transport.turn()


def test_an_upload_is_held_by_its_window_and_goes_on(shared: SharedLine) -> None:
    leg = shared.upload()
    source = feed(shared, leg)
    source.deliver(b"x" * 70_000)
    shared.turn()
    assert source.log == ["pause"]
    assert len(shared.bodies()[1]) == 65_535
    shared.worker.increment_flow_control_window(100_000)
    shared.worker.increment_flow_control_window(100_000, 1)
    shared.turn()
    assert source.log == ["pause", "resume"]
    source.deliver(b"y", True)
    shared.turn()
    assert shared.bodies()[1] == b"x" * 70_000 + b"y"
    assert shared.ended() == [1]


def test_an_upload_that_breaks_off_resets_its_stream(shared: SharedLine) -> None:
    leg = shared.upload()
    source = feed(shared, leg)
    source.deliver(b"x")
    error = BodyAborted()
    source.fail(error)
    shared.turn()
    assert error_of(leg) is error
    assert shared.resets() == {1: CANCEL}
    assert not shared.ended()
    assert shared.pool.counts() == (1, 0)


def test_an_early_answer_stops_the_upload_and_keeps_the_connection(
    shared: SharedLine,
) -> None:
    leg = shared.upload()
    source = feed(shared, leg)
    source.deliver(b"x")
    shared.turn()
    shared.answer(1, b"no")
    assert leg.take_all() == b"no"
    assert source.log == ["abort"]
    assert shared.resets() == {1: CANCEL}
    assert shared.pool.counts() == (1, 0)


def test_a_worker_that_reads_nothing_holds_every_upload(shared: SharedLine) -> None:
    shared.worker.increment_flow_control_window(1 << 20)
    sources = []
    for _ in range(2):
        leg = shared.upload()
        sources.append(feed(shared, leg))
        shared.worker.increment_flow_control_window(1 << 20, leg.stream_id)
        shared.turn()
    shared.transport.peer_stalls()
    sources[0].deliver(b"x" * 100_000)
    shared.loop.turn()
    assert [each.log for each in sources] == [["pause"], ["pause"]]
    shared.transport.peer_reads()
    shared.turn()
    assert [each.log for each in sources] == [["pause", "resume"]] * 2


def test_a_starved_upload_that_times_out_is_its_clients_fault(
    shared: SharedLine, clock: FakeClock
) -> None:
    leg = shared.connection.upload(ask(), b"w", clock.now + 1)
    feed(shared, leg)
    shared.connection.sweep(clock.now + 1)
    assert isinstance(error_of(leg), UploadTimeout)
