"""A file on its way from a client to a worker: kept in memory while it is small.

Beyond that in a temporary file without a name, which nothing can leave behind. It is
written and read in the loop, a read of the socket at a time, as nginx does with its
request bodies: the page cache takes it.
"""

from __future__ import annotations

import asyncio
import tempfile

from smgproxy.core.errors import GatewayError
from smgproxy.core.flow import Source

# What stays in memory.
MEMORY_BYTES = 1024 * 1024
READ_BYTES = 128 * 1024


class Spool:
    """Bytes written once, then read once. Raises OSError when the disk does not."""

    __slots__ = ("_file", "size")

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)
        self.size = 0

    @property
    def is_small(self) -> bool:
        """Whether it never left memory."""
        return self.size <= MEMORY_BYTES

    def clear(self) -> None:
        """Begin anew."""
        self._file.seek(0)
        self._file.truncate()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Keep the next bytes."""
        self.size += len(data)
        self._file.write(data)

    def rewind(self) -> None:
        """Read from the beginning."""
        self._file.seek(0)

    def read(self, size: int = -1) -> bytes:
        """The next bytes, all of them unless told how many; empty at the end."""
        return self._file.read(size)

    def close(self) -> None:
        """Let it go; the file is gone with this."""
        self._file.close()


class SpoolSource(Source):
    """A body made of a head, a spooled file and a tail.

    One piece in a turn of the loop, however fast its worker takes them.
    """

    __slots__ = ("_loop", "_spool", "_head", "_tail", "_turn", "_left")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, spool: Spool, head: bytes, tail: bytes
    ) -> None:
        super().__init__()
        self._loop = loop
        self._spool = spool
        self._head = head
        self._tail = tail
        self._left = spool.size
        self._turn: asyncio.Handle | None = None
        spool.rewind()
        # Nothing comes before someone wants it: joining is resuming.
        self._is_paused = True

    @property
    def is_awaited(self) -> bool:
        """Never: no client's clock runs, what is missing is here."""
        return False

    def on_resume(self) -> None:
        """Source.on_resume"""
        if self._turn is None and not self.is_ended:
            self._turn = self._loop.call_soon(self._push)

    def on_pause(self) -> None:
        """Source.on_pause"""
        self._stop()

    def on_abort(self, error: Exception) -> None:
        """Source.on_abort"""
        self._stop()

    def _stop(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _push(self) -> None:
        self._turn = None
        head, self._head = self._head, b""
        try:
            data = self._spool.read(READ_BYTES)
        except OSError as error:
            self.fail(spool_failed(error))
            return
        self._left -= len(data)
        if self._left and not data:
            self.fail(spool_failed(EOFError("it is shorter than it was")))
            return
        is_last = not self._left
        self.deliver(head + data + (self._tail if is_last else b""), is_last)
        if not self._is_paused:
            self.on_resume()


def spool_failed(error: Exception) -> GatewayError:
    """What a client is told when its file could not be kept."""
    return GatewayError(f"The uploaded file could not be kept: {error}")
