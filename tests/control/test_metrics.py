"""The metrics page is counted on the event loop and written down beside it."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

from smgproxy.api.replies import Reply
from smgproxy.control.metrics import CONTENT_TYPE, metrics_routes
from smgproxy.telemetry.families import Family, gauge
from smgproxy.telemetry.metrics import Exposition
from tests.control.stage import ask


class Threads:
    """An exposition that notes which thread asks it."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def snapshot(self) -> list[Family]:
        self.asked.append(threading.get_ident())
        return [gauge("one", "One", [], [((), 1)])]

    def page(self, taken: list[Family]) -> bytes:
        self.asked.append(threading.get_ident())
        return b" ".join(family.name.encode() for family in taken)


def test_numbers_are_taken_on_the_loop_and_written_down_on_a_thread() -> None:
    threads = Threads()
    routes = metrics_routes(cast(Exposition, threads))

    async def scrape() -> Reply:
        return await ask(routes, "GET", "/metrics", b"", None)

    reply = asyncio.run(scrape())
    assert reply.status == 200
    assert reply.body == b"one"
    assert reply.content_type == CONTENT_TYPE
    first, second = threads.asked
    assert first == threading.get_ident() != second
