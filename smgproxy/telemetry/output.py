"""Lines on their way out, through descriptors that may have no reader.

A pipe that nobody empties, a stopped terminal and a journal that lags all make
write(2) wait, and the event loop with it. Here nothing waits: what does not fit now is
kept up to a bound, and what is beyond the bound is dropped by whole lines and counted.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

# About ten thousand lines; a reader that is further behind loses some.
MAX_WAITING_BYTES = 1 << 20
# What a reader that is merely slow gets, once, when everything ends.
CLOSE_SECS = 0.5
# A write of so much is all or nothing on a pipe, so that lines of processes that
# share it do not mix (pipe(7)).
_ATOMIC_BYTES = select.PIPE_BUF


class Lines(Protocol):
    """Where finished lines go."""

    def write(self, text: str) -> None:
        """Take whole lines."""

    def flush(self) -> None:
        """Pass on what can be passed on now."""


class Output:
    """The lines one descriptor has not taken yet. Not for several threads at once.

    ``notice`` makes the line that says how many were dropped.
    """

    __slots__ = (
        "dropped",
        "told",
        "_fd",
        "_way",
        "_notice",
        "_waiting",
        "_is_mid_line",
    )

    def __init__(self, fd: int, notice: Callable[[int], str]) -> None:
        self.dropped = 0  # lines, since the last notice
        self.told = 0  # lines that the notices before told of
        self._fd = fd
        self._way = _way_out(fd)
        self._notice = notice
        self._waiting = bytearray()
        self._is_mid_line = False

    @property
    def lost(self) -> int:
        """Lines dropped so far."""
        return self.told + self.dropped

    def write(self, text: str) -> None:
        """Take whole lines, as many as there is room for."""
        data = text.encode()
        room = MAX_WAITING_BYTES - len(self._waiting)
        if len(data) > room:
            cut = data.rfind(b"\n", 0, max(room, 0)) + 1
            self.dropped += data.count(b"\n", cut)
            data = data[:cut]
        self._waiting += data

    def flush(self) -> None:
        """Write what the descriptor takes without waiting."""
        self._push()
        if self.dropped and not self._waiting:
            dropped, self.dropped = self.dropped, 0
            self.write(self._notice(dropped) + "\n")
            self._push()
            if self.dropped:  # not even the notice could be written
                self.dropped = dropped
            else:
                self.told += dropped

    def close(self) -> None:
        """Flush, waiting a moment for a slow reader; then let go of the descriptor."""
        deadline = time.monotonic() + CLOSE_SECS
        self.flush()
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while self._waiting and (left := deadline - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                self.flush()
        self._way.close()

    def _push(self) -> None:
        waiting, way = self._waiting, self._way
        while waiting:
            piece = bytes(waiting[: way.limit])
            if len(piece) < len(waiting):
                piece = piece[: piece.rfind(b"\n") + 1] or piece
            try:
                sent = way.send(piece)
            except BlockingIOError:
                return
            except OSError:  # a full disk, or a reader that is gone for good
                self._drop_waiting()
                return
            self._is_mid_line = piece[sent - 1] != ord("\n")
            del waiting[:sent]

    def _drop_waiting(self) -> None:
        # The end of a line of which a part is out already: it stays one line.
        kept = self._waiting.find(b"\n") + 1 if self._is_mid_line else 0
        self.dropped += self._waiting.count(b"\n", kept)
        del self._waiting[kept:]


class DailyFile:
    """``smg.YYYY-MM-DD`` in a folder, another one each day (UTC), none ever deleted."""

    __slots__ = ("_folder", "_notice", "_day", "_fd", "_output", "_missed", "_told")

    def __init__(self, folder: Path, notice: Callable[[int], str]) -> None:
        self._folder = folder
        self._notice = notice
        self._day = ""
        self._fd = -1
        self._output: Output | None = None
        self._missed = 0  # lines that came while there was no file to be had
        self._told = 0  # lines that the files of days past told of

    @property
    def lost(self) -> int:
        """Lines dropped so far."""
        today = 0 if self._output is None else self._output.lost
        return self._told + self._missed + today

    def write(self, text: str) -> None:
        """Take whole lines; what cannot be written must not stop the gateway."""
        try:
            output = self.open()
        except OSError:
            self._missed += text.count("\n")
            return
        output.write(text)

    def flush(self) -> None:
        """Write them."""
        if self._output is not None:
            self._output.flush()

    def close(self) -> None:
        """Close the file of the day."""
        output, self._output = self._output, None
        if output is not None:
            output.close()
            os.close(self._fd)
            self._missed += output.dropped
            self._told += output.told

    def open(self) -> Output:
        """Today's file. Raises OSError."""
        day = time.strftime("%Y-%m-%d", time.gmtime())
        output = self._output
        if output is None or day != self._day:
            self.close()
            self._folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(self._folder / f"smg.{day}", flags, 0o666)
            self._day = day
            output = self._output = Output(self._fd, self._notice)
            output.dropped, self._missed = self._missed, 0
        return output


class Outputs:
    """Everywhere lines go at once; for any thread."""

    __slots__ = ("_outputs", "_lock")

    def __init__(self, outputs: Sequence[Output | DailyFile]) -> None:
        self._outputs = outputs
        # Never held while anyone waits: no write here does.
        self._lock = threading.Lock()

    @property
    def lost(self) -> int:
        """Lines dropped so far; one that two outputs dropped is two."""
        return sum(each.lost for each in self._outputs)

    def write(self, text: str) -> None:
        """Take whole lines."""
        with self._lock:
            for each in self._outputs:
                each.write(text)

    def flush(self) -> None:
        """Pass on what can be passed on now."""
        with self._lock:
            for each in self._outputs:
                each.flush()

    def close(self) -> None:
        """Pass on the rest, for a moment, and close."""
        with self._lock:
            for each in self._outputs:
                each.close()
            self._outputs = ()


class _Way:
    """How to write to a descriptor without waiting: ``send`` takes up to ``limit``
    bytes and raises BlockingIOError when there is no room."""

    __slots__ = ("send", "limit", "close")

    def __init__(
        self,
        send: Callable[[bytes], int],
        limit: int = _ATOMIC_BYTES,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self.send = send
        self.limit = limit
        self.close = close


def _way_out(fd: int) -> _Way:
    """By the kind of descriptor. O_NONBLOCK is never set on ``fd`` itself: it would
    hold for every process that has the same pipe or terminal."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return _Way(partial(os.write, fd), MAX_WAITING_BYTES)
        if stat.S_ISSOCK(mode):
            sock = socket.socket(fileno=os.dup(fd))
            return _Way(
                lambda data: sock.send(data, socket.MSG_DONTWAIT), close=sock.close
            )
        # The same pipe or terminal once more, with flags of our own.
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        own = os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:  # another user's pipe, or no /proc
        return _Way(partial(_write_if_ready, fd))
    return _Way(partial(os.write, own), close=partial(os.close, own))


def _write_if_ready(fd: int, data: bytes) -> int:
    """A pipe that polls as writable has room for PIPE_BUF bytes."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    if not poll.poll(0):
        raise BlockingIOError(errno.EAGAIN, "no room")
    return os.write(fd, data)
