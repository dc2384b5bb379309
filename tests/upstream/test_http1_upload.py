"""A request's body on its way to a worker while it comes in."""

from __future__ import annotations

import errno
import gc
import socket

import pytest

from smgproxy.core.errors import (
    BodyAborted,
    BodyStalled,
    ReplyBroken,
    SendFailed,
    UploadTimeout,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.message import WorkerRequest
from smgproxy.upstream.http1 import HIGH_WATER, Http1Leg, WorkerConnection
from smgproxy.upstream.http1_upload import Http1Upload
from tests.core.scripted import ScriptedSource
from tests.fakes.transport import FakeTransport
from tests.upstream.stage import DEADLINE, OK, STREAM, FakeLoop, Kept, Line

HEAD = (
    b"POST /v1/x HTTP/1.1\r\ncontent-type: application/json\r\nauthorization: k\r\n"
    b"accept: */*\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST = b"0\r\n\r\n"


class Upload:
    """A client's source, joined to the leg of one connection."""

    def __init__(self, line: Line, deadline: float = DEADLINE) -> None:
        self.line = line
        self.transport = line.transport
        self.source = ScriptedSource()
        fields = [
            (b"content-type", b"application/json"),
            (b"authorization", b"k"),
        ]
        request = WorkerRequest(b"POST", b"/v1/x", fields)
        self.leg: Http1Leg = line.connection.upload(request, b"w", deadline)

    def join(self) -> None:
        assert self.leg.request is not None
        self.source.join(self.leg.request)
        self.leg.request.flush()

    @property
    def fault(self) -> BaseException | None:
        return self.leg.head.exception()


@pytest.fixture
def upload(line: Line) -> Upload:
    return Upload(line)


def test_a_body_that_is_here_leaves_with_its_head_in_one_write(upload: Upload) -> None:
    upload.source.deliver(b'{"a":1}', True)
    upload.join()
    assert upload.transport.syscalls == [HEAD + b'7\r\n{"a":1}\r\n' + LAST]


def test_a_body_of_a_set_length_is_not_chunked(line: Line) -> None:
    request = WorkerRequest(b"POST", b"/v1/x", [(b"content-length", b"5")])
    leg = line.connection.upload(request, b"w", DEADLINE)
    source = ScriptedSource()
    assert leg.request is not None
    source.join(leg.request)
    source.deliver(b"123")
    source.deliver(b"45", True)
    head = b"POST /v1/x HTTP/1.1\r\ncontent-length: 5\r\naccept: */*\r\nhost: w\r\n\r\n"
    assert line.transport.syscalls == [head + b"123", b"45"]


def test_the_head_does_not_wait_for_the_body(upload: Upload) -> None:
    upload.join()
    assert upload.transport.syscalls == [HEAD]


def test_each_piece_is_one_chunk_and_one_write(upload: Upload) -> None:
    upload.join()
    upload.source.deliver(b"x" * 26)
    upload.source.deliver(b"yz", True)
    assert upload.transport.syscalls[1:] == [
        b"1a\r\n" + b"x" * 26 + b"\r\n",
        b"2\r\nyz\r\n" + LAST,
    ]


def test_an_empty_piece_does_not_end_the_body(upload: Upload) -> None:
    upload.join()
    upload.source.deliver(b"")
    upload.source.deliver(b"a")
    upload.source.deliver(b"", True)
    assert upload.transport.sent == HEAD + b"1\r\na\r\n" + LAST


def test_an_empty_body_is_a_last_chunk_alone(upload: Upload) -> None:
    upload.source.deliver(b"", True)
    upload.join()
    assert upload.transport.syscalls == [HEAD + LAST]


def test_a_whole_upload_and_its_answer_give_the_connection_back(
    upload: Upload,
) -> None:
    upload.join()
    upload.source.deliver(b"a", True)
    upload.line.says(OK)
    assert upload.leg.take_all() == b"ok"
    assert upload.line.state == "idle"


# -- backpressure --------------------------------------------------------------------


def test_a_worker_that_does_not_read_holds_its_client(upload: Upload) -> None:
    upload.join()
    upload.transport.peer_stalls(0)
    upload.source.deliver(b"x" * (HIGH_WATER + 1))
    assert upload.source.is_paused
    upload.source.deliver(b"was already read")
    assert len(upload.transport.syscalls) == 2, "written to a full transport"
    upload.transport.peer_reads()
    assert not upload.source.is_paused
    assert upload.transport.sent.endswith(b"10\r\nwas already read\r\n")


def test_the_last_piece_leaves_nobody_held(upload: Upload) -> None:
    upload.join()
    upload.transport.peer_stalls(0)
    upload.source.deliver(b"x" * (HIGH_WATER + 1))
    upload.source.deliver(b"y" * (HIGH_WATER + 1), True)
    assert upload.source.is_paused
    upload.transport.peer_reads(HIGH_WATER + 100)
    assert not upload.source.is_paused, "its client's leaving would go unseen"
    upload.transport.peer_reads()
    assert upload.transport.sent.endswith(b"y\r\n" + LAST)


# -- answers before the end ----------------------------------------------------------


@pytest.mark.parametrize("answer", [OK, STREAM + b"2\r\nok\r\n0\r\n\r\n"])
def test_an_early_answer_is_whole_and_ends_the_upload(
    upload: Upload, answer: bytes
) -> None:
    upload.join()
    upload.source.deliver(b"a")
    upload.line.says(answer)
    assert upload.leg.take_all() == b"ok"
    assert upload.line.state == "gone"
    assert upload.transport.is_closing()
    assert upload.source.aborted_with
    upload.source.deliver(b"b", True)
    assert LAST not in upload.transport.sent


def test_the_upload_goes_on_while_the_answer_does(upload: Upload) -> None:
    sink = Kept()
    upload.join()
    upload.line.says(STREAM, b"1\r\na\r\n")
    upload.leg.join(sink)
    upload.source.deliver(b"more", True)
    upload.line.says(b"1\r\nb\r\n0\r\n\r\n")
    assert b"".join(sink.pieces) == b"ab"
    assert upload.transport.sent.endswith(b"4\r\nmore\r\n" + LAST)
    assert upload.line.state == "idle"


def test_an_early_answer_lets_go_of_a_client_that_is_held(upload: Upload) -> None:
    upload.join()
    upload.transport.peer_stalls(0)
    upload.source.deliver(b"x" * (HIGH_WATER + 1))
    upload.line.says(OK)
    assert upload.source.aborted_with
    assert not upload.source.is_paused


# -- uploads that fail ---------------------------------------------------------------


@pytest.mark.parametrize("error", [BodyAborted(), BodyStalled(2)])
def test_a_body_that_breaks_off_fails_the_leg_and_has_no_last_chunk(
    upload: Upload, error: Exception
) -> None:
    upload.join()
    upload.source.deliver(b"a")
    upload.source.fail(error)
    assert upload.fault is error
    assert upload.transport.sent == HEAD + b"1\r\na\r\n"
    assert upload.transport.events == ["abort"]
    assert upload.line.state == "gone"


def test_a_body_that_broke_before_it_was_joined_fails_the_leg(upload: Upload) -> None:
    error = BodyStalled(2)
    upload.source.fail(error)
    upload.join()
    assert upload.fault is error
    assert upload.transport.sent == b""


def test_an_abort_of_the_leg_ends_the_upload_without_a_last_chunk(
    upload: Upload,
) -> None:
    upload.join()
    upload.source.deliver(b"a")
    upload.leg.abort(UpstreamError("its client is gone"))
    upload.source.deliver(b"b", True)
    assert upload.transport.sent == HEAD + b"1\r\na\r\n"
    assert upload.line.state == "gone"


@pytest.mark.parametrize("is_held", [False, True])
def test_a_worker_that_is_lost_lets_go_of_its_client(
    upload: Upload, is_held: bool
) -> None:
    upload.join()
    if is_held:
        upload.transport.peer_stalls(0)
        upload.source.deliver(b"x" * (HIGH_WATER + 1))
    upload.transport.peer_resets()
    assert isinstance(upload.fault, SendFailed)
    assert upload.source.aborted_with
    assert not upload.source.is_paused
    upload.source.deliver(b"b", True)


def test_a_timeout_that_its_client_used_up_is_told_from_the_workers(
    loop: FakeLoop,
) -> None:
    slow_client = Upload(Line(loop), deadline=5.0)
    slow_client.join()
    slow_client.line.connection.expire(5.0)
    assert isinstance(slow_client.fault, UploadTimeout)

    slow_reader = Upload(Line(loop), deadline=5.0)
    slow_reader.join()
    slow_reader.transport.peer_stalls(0)
    slow_reader.source.deliver(b"x" * (HIGH_WATER + 1))
    slow_reader.line.connection.expire(5.0)
    assert type(slow_reader.fault) is UpstreamTimeout

    silent = Upload(Line(loop), deadline=5.0)
    silent.join()
    silent.source.deliver(b"a", True)
    silent.line.connection.expire(5.0)
    assert type(silent.fault) is UpstreamTimeout


# -- an answer behind a failed write -------------------------------------------------


class Behind:
    """A connection whose transport dies of a write, with an answer in the kernel."""

    def __init__(self, loop: FakeLoop, said: bytes, **extra: object) -> None:
        self.upload = Upload(Line(loop))
        self.upload.join()
        self.upload.source.deliver(b"a")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(said)
            theirs.close()
            found: dict[str, object] = {"socket": ours, **extra}
            transport: FakeTransport = self.upload.transport
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(transport, "get_extra_info", found.get)
                transport.peer_resets(BrokenPipeError(errno.EPIPE, "broken"))


def test_what_the_worker_said_before_it_closed_is_read(loop: FakeLoop) -> None:
    behind = Behind(loop, OK.replace(b"200", b"413"))
    assert behind.upload.leg.head.result().status == 413
    assert behind.upload.leg.take_all() == b"ok"


def test_an_answer_that_ends_with_the_connection_is_read_to_its_end(
    loop: FakeLoop,
) -> None:
    behind = Behind(loop, b"HTTP/1.1 400 Bad\r\n\r\nno")
    assert behind.upload.leg.take_all() == b"no"


def test_half_an_answer_is_a_broken_one(loop: FakeLoop) -> None:
    behind = Behind(loop, OK[:-1])
    assert behind.upload.leg.head.result().status == 200
    sink = Kept()
    behind.upload.leg.join(sink)
    assert isinstance(sink.error, ReplyBroken)


@pytest.mark.parametrize("extra", [{}, {"sslcontext": object()}])
def test_nothing_said_or_nothing_readable_is_a_failed_send(
    loop: FakeLoop, extra: dict[str, object]
) -> None:
    behind = Behind(loop, OK if extra else b"", **extra)
    assert isinstance(behind.upload.fault, SendFailed)


# -- memory --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["answered", "early", "failed", "lost"])
def test_an_upload_leaves_no_cycle(loop: FakeLoop, how: str) -> None:
    def once() -> None:
        upload = Upload(Line(loop))
        upload.join()
        upload.source.deliver(b"a", how == "answered")
        if how == "failed":
            upload.source.fail(BodyAborted())
        elif how == "lost":
            upload.transport.peer_resets()
        else:
            upload.line.says(OK)
            upload.transport.peer_closes()
        upload.transport.turn()
        loop.transports.clear()

    ours = (Http1Upload, Http1Leg, WorkerConnection, ScriptedSource)
    gc.collect()
    before = {id(one) for one in gc.get_objects() if isinstance(one, ours)}
    gc.disable()
    try:
        once()
        left = [one for one in gc.get_objects() if isinstance(one, ours)]
        assert not [one for one in left if id(one) not in before]
    finally:
        gc.enable()
