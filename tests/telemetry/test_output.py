"""Log output that never waits: readers that stall, lines that stay whole, bounds."""

from __future__ import annotations

import asyncio
import os
import pty
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from smgproxy.telemetry.output import MAX_WAITING_BYTES, Output, Outputs

LINE = "x" * 79 + "\n"
# Far more than any pipe, socket or terminal takes without a reader.
FLOOD = LINE * (3 * MAX_WAITING_BYTES // len(LINE))


def notice(dropped: int) -> str:
    return f"{dropped} lost"


class Ends:
    """A descriptor to write to, and its reader."""

    def __init__(self, write: int, read: int) -> None:
        self.write, self.read = write, read
        os.set_blocking(read, False)
        self.got = b""
        self._outputs: list[Output] = []

    def output(self) -> Output:
        """What is under test."""
        self._outputs.append(Output(self.write, notice))
        return self._outputs[-1]

    def take(self) -> int:
        """Read what is there; how much that was."""
        before = len(self.got)
        with suppress(BlockingIOError):
            while piece := os.read(self.read, 1 << 20):
                self.got += piece
        return len(self.got) - before

    def close(self) -> None:
        os.close(self.read)
        for output in self._outputs:
            output.close()
        os.close(self.write)


def make_pipe() -> Ends:
    read, write = os.pipe()
    return Ends(write, read)


def make_socket() -> Ends:
    ours, theirs = socket.socketpair()
    return Ends(ours.detach(), theirs.detach())


def make_terminal() -> Ends:
    master, slave = pty.openpty()
    return Ends(slave, master)


@pytest.fixture(params=[make_pipe, make_socket, make_terminal])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    with closing(request.param()) as made:
        yield made


@pytest.fixture
def pipe() -> Iterator[Ends]:
    with closing(make_pipe()) as made:
        yield made


def drained(output: Output, ends: Ends) -> list[bytes]:
    """All lines, once the reader has taken everything there is."""
    while True:
        output.flush()
        if not ends.take():
            break
    return ends.got.replace(b"\r\n", b"\n").splitlines(keepends=True)


def test_a_reader_that_stalls_keeps_nobody_waiting_and_gets_whole_lines(
    ends: Ends,
) -> None:
    output = ends.output()
    output.write(FLOOD)
    output.flush()
    dropped = output.dropped
    assert dropped > 0
    *lines, last = drained(output, ends)
    assert set(lines) == {LINE.encode()}
    assert last == f"{dropped} lost\n".encode()
    assert len(lines) + dropped == FLOOD.count("\n")
    assert output.lost == dropped


def test_what_waits_is_bounded(pipe: Ends) -> None:
    output = pipe.output()
    for _ in range(5):
        output.write(FLOOD)
        output.flush()
    lines = drained(output, pipe)
    assert sum(map(len, lines)) < MAX_WAITING_BYTES + 2 * 65536


def test_lines_are_kept_again_once_the_reader_is_back(pipe: Ends) -> None:
    output = pipe.output()
    output.write(FLOOD)
    drained(output, pipe)
    pipe.got = b""
    output.write("again\n")
    assert drained(output, pipe) == [b"again\n"]


def test_the_flags_of_a_shared_descriptor_stay_as_they_are(ends: Ends) -> None:
    output = ends.output()
    output.write(LINE)
    output.flush()
    assert os.get_blocking(ends.write)


def test_a_pipe_that_cannot_be_opened_again_is_polled(
    pipe: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr("smgproxy.telemetry.output.os.open", refuse)
    output = pipe.output()
    output.write(FLOOD)
    output.flush()
    dropped = output.dropped
    *lines, last = drained(output, pipe)
    assert set(lines) == {LINE.encode()}
    assert last == f"{dropped} lost\n".encode()


def test_lines_of_two_processes_on_one_pipe_do_not_mix(pipe: Ends) -> None:
    """Each write ends with a line and is small enough to be all or nothing."""
    outputs = [pipe.output(), pipe.output()]
    for output, letter in zip(outputs, "ab"):
        output.write((letter * 99 + "\n") * 2000)
    while True:
        for output in outputs:
            output.flush()
        if not pipe.take():
            break
    lines = pipe.got.splitlines()
    assert len(lines) == 4000
    assert set(lines) == {b"a" * 99, b"b" * 99}


def test_a_line_longer_than_a_pipe_takes_at_once_comes_whole(pipe: Ends) -> None:
    output = pipe.output()
    long = "y" * 200_000 + "\n"
    output.write(LINE + long + LINE)
    assert drained(output, pipe) == [LINE.encode(), long.encode(), LINE.encode()]


def test_a_reader_that_is_gone_loses_lines_and_nothing_else(pipe: Ends) -> None:
    output = pipe.output()
    os.close(pipe.read)
    for _ in range(2):
        output.write(LINE * 3)
        output.flush()
    assert output.lost == 6
    pipe.read = os.open(os.devnull, os.O_RDONLY)


def test_a_file_gets_everything_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        output = Output(file.fileno(), notice)
        output.write(LINE * 5000)
        output.flush()
        assert path.read_text() == LINE * 5000


def test_a_slow_reader_gets_the_last_lines_when_everything_ends(pipe: Ends) -> None:
    output = Output(pipe.write, notice)
    output.write(LINE * 5000)
    output.flush()
    os.set_blocking(pipe.read, True)
    wanted = 5000 * len(LINE)

    def read() -> None:
        while len(pipe.got) < wanted:
            pipe.got += os.read(pipe.read, 65536)

    reader = threading.Thread(target=read)
    reader.start()
    output.close()
    reader.join(10)
    assert pipe.got.decode() == LINE * 5000


def test_closing_gives_up_on_a_reader_that_stalls(pipe: Ends) -> None:
    output = Output(pipe.write, notice)
    output.write(FLOOD)
    began = time.monotonic()
    output.close()
    assert time.monotonic() - began < 2


def test_the_event_loop_turns_while_nobody_reads(pipe: Ends) -> None:
    outputs = Outputs([pipe.output()])

    async def flood() -> float:
        loop = asyncio.get_running_loop()
        longest = 0.0
        for _ in range(20):
            began = loop.time()
            outputs.write(LINE * 1000)
            outputs.flush()
            await asyncio.sleep(0)
            longest = max(longest, loop.time() - began)
        return longest

    assert asyncio.run(flood()) < 1.0
