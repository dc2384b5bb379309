"""TLS without I/O: bytes of the wire in and out of two memory buffers."""

from __future__ import annotations

import ssl

# The most that one record carries; SSL_read never gives more at a time.
RECORD_BYTES = 16 * 1024

Data = bytes | bytearray | memoryview


class Records:
    """One side of one TLS connection.

    What is to leave is taken with ``taken``, behind every call that says so.
    """

    __slots__ = ("tls", "is_over", "error", "_incoming", "_outgoing")

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        """A client's side with ``server_name``, else a server's.

        Raises ValueError when the name cannot be one.
        """
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self.is_over = False  # the peer's close_notify was read
        self.error: ssl.SSLError | None = None  # the peer broke the protocol

    @property
    def waiting(self) -> int:
        """Bytes that wait to be taken."""
        return self._outgoing.pending

    def taken(self) -> bytes:
        """All that is to be sent to the peer now."""
        return self._outgoing.read()

    def put(self, data: bytes) -> None:
        """Bytes that the peer sent."""
        self._incoming.write(data)

    def shake_hands(self) -> bool:
        """Go on with the handshake, then take; True when it is done.

        Raises ssl.SSLError when it failed; what is taken then says so to the peer.
        """
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def opened(self) -> bytes:
        """All the data there is in what was put, then take.

        ``is_over`` and ``error`` say afterwards what came behind it.
        """
        pieces: list[bytes] = []
        tls, incoming = self.tls, self._incoming
        try:
            # Without the look at what is pending each read would end in an exception.
            while incoming.pending or tls.pending():
                piece = tls.read(RECORD_BYTES)
                if not piece:
                    self.is_over = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass  # a record that is not whole yet
        except ssl.SSLZeroReturnError:
            self.is_over = True  # a close_notify that answers ours
        except ssl.SSLError as error:
            self.error = error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seal(self, data: Data) -> None:
        """Make records of data, to be taken; none of it has to wait for the peer."""
        write = self.tls.write
        done = write(data)
        if done < len(data):
            view = memoryview(data)
            while done < len(view):
                done += write(view[done : done + RECORD_BYTES])

    def say_goodbye(self) -> None:
        """A close_notify, to be taken; nothing can be sealed behind it."""
        try:
            self.tls.unwrap()
        except ssl.SSLError:
            pass  # it wants the peer's goodbye too, for which nobody waits
