"""A leg: one attempt at one worker, whatever protocol carries it."""

from __future__ import annotations

import asyncio

from smgproxy.core.flow import Sink, Source
from smgproxy.core.message import ResponseHead


class Leg(Source):
    """One request sent to one worker, and the source of its response body.

    ``head`` is fulfilled with the response's head, or fails with an UpstreamError.
    ``request`` takes the request's body when that follows its head piece by piece.
    ``abort`` ends the attempt at once, so that the engine stops generating.
    """

    __slots__ = ("head", "request", "deadline")

    def __init__(self, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        Source.__init__(self)  # super() alone costs as much as the call
        self.head: asyncio.Future[ResponseHead] = loop.create_future()
        self.request: Sink | None = None
        self.deadline = deadline
