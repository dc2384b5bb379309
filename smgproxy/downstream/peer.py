"""What the kernel knows of the other end of a client's connection."""

from __future__ import annotations

import asyncio
import select


def address_of(transport: asyncio.Transport) -> str:
    """The client's IP address; nothing for a client on a UNIX socket."""
    peer = transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else ""


def has_hung_up(transport: asyncio.Transport) -> bool:
    """Whether the client sent its FIN; asks the kernel, reads nothing."""
    sock = transport.get_extra_info("socket")
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))
