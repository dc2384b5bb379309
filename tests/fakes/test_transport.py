"""The fake transport is as strict as it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.fakes.transport import FakeTransport, Misuse


class Diary(asyncio.Protocol):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str | bytes] = []
        self.stays_open = False

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def eof_received(self) -> bool:
        self.heard.append("eof")
        return self.stays_open

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.heard.append("reset" if error else "lost")


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def transport(diary: Diary) -> FakeTransport:
    return FakeTransport(diary, high_water=10, low_water=4)


def test_a_write_is_a_system_call_and_reaches_a_reading_peer(
    transport: FakeTransport,
) -> None:
    transport.write(b"ab")
    transport.writelines([b"c", b"d"])
    assert transport.syscalls == [b"ab", b"cd"]
    assert transport.take_sent() == b"abcd"
    assert transport.take_sent() == b""


def test_water_marks_pause_and_resume_writing(
    transport: FakeTransport, diary: Diary
) -> None:
    transport.peer_stalls(room=2)
    transport.write(b"x" * 12)
    assert diary.heard == []
    transport.write(b"x")
    assert diary.heard == ["pause"]
    transport.peer_reads(6)
    assert diary.heard == ["pause"]
    transport.peer_reads(1)
    assert diary.heard == ["pause", "resume"]


def test_reading_waits_while_paused(transport: FakeTransport, diary: Diary) -> None:
    transport.pause_reading()
    transport.peer_sends(b"a", b"b")
    transport.peer_closes()
    assert (diary.heard, transport.unread) == ([], b"ab")
    transport.resume_reading()
    assert diary.heard == []
    transport.turn()
    assert diary.heard == [b"a", b"b", "eof", "lost"]


def test_close_waits_for_the_peer_and_abort_does_not(
    transport: FakeTransport, diary: Diary
) -> None:
    transport.peer_stalls()
    transport.write(b"ab")
    transport.close()
    transport.turn()
    assert diary.heard == []
    transport.abort()
    transport.turn()
    assert diary.heard == ["lost"]
    assert transport.sent == b""


def test_close_is_heard_a_turn_later(transport: FakeTransport, diary: Diary) -> None:
    transport.close()
    assert diary.heard == []
    transport.turn()
    assert diary.heard == ["lost"]


def test_a_reset_is_heard_even_while_paused(
    transport: FakeTransport, diary: Diary
) -> None:
    transport.pause_reading()
    transport.peer_resets()
    assert diary.heard == ["reset"]


def _write(transport: FakeTransport) -> None:
    transport.write(b"x")


CALLS: dict[str, Callable[[FakeTransport], None]] = {
    "write": _write,
    "write_nothing": lambda transport: transport.write(b""),
    "write_eof": FakeTransport.write_eof,
    "close": FakeTransport.close,
    "abort": FakeTransport.abort,
    "reset": FakeTransport.peer_resets,
    "pause": FakeTransport.pause_reading,
    "resume": FakeTransport.resume_reading,
}


@pytest.mark.parametrize(
    "calls",
    [
        *("close write", "abort write", "reset write", "write_eof write"),
        *("write_nothing", "write_eof write_eof", "close write_eof"),
        *("resume", "pause pause", "pause close resume", "reset pause"),
    ],
)
def test_the_last_of_these_calls_is_misuse(
    transport: FakeTransport, calls: str
) -> None:
    *before, last = calls.split()
    for call in before:
        CALLS[call](transport)
    with pytest.raises(Misuse):
        CALLS[last](transport)
