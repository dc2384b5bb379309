"""Every realtime route, put together for the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from smgproxy.admission.budgets import Budgets
from smgproxy.api.endpoints import Routes
from smgproxy.core.access import Access
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.fallback import Fallbacks
from smgproxy.dispatch.realtime import Realtime
from smgproxy.dispatch.realtime_attempt import Picks
from smgproxy.dispatch.realtime_calls import NAMES, RealtimeCall
from smgproxy.dispatch.realtime_options import RealtimeOptions
from smgproxy.dispatch.turns import LargeBodies
from smgproxy.fleet.registry import Registry
from smgproxy.routing.labelled import LabelledRouter
from smgproxy.telemetry.realtime import RealtimeStats
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.calls import Upstream
from smgproxy.upstream.pool import Secure
from smgproxy.upstream.websocket import WorkerSockets


class RealtimeRoutes:
    """The sessions, and the ordinary requests beside them."""

    __slots__ = ("stats", "sockets", "_sessions", "_calls")

    def __init__(
        self,
        canonical: Callable[[str], str],
        registry: Registry,
        upstream: Upstream,
        secure: Secure,
        options: RealtimeOptions,
        answers: Answers,
        large_bodies: LargeBodies,
        routed: RouterStats,
        max_payload_bytes: int,
        loop: asyncio.AbstractEventLoop,
        budgets: Budgets | None = None,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        """``canonical``: what a model's name stands for.

        ``secure``: for workers that are spoken to over TLS. ``answers``: what is done
        with workers' answers that are ordinary ones.
        """
        self.stats = RealtimeStats()
        self.sockets = sockets = WorkerSockets(loop, secure)
        picks = Picks(LabelledRouter(registry), answers, routed, fallbacks)
        self._sessions = Realtime(
            canonical, picks, sockets, options, self.stats, loop, budgets
        )
        self._calls = [
            RealtimeCall(
                *(path, canonical, picks, upstream, large_bodies, max_payload_bytes),
                budgets,
            )
            for path in NAMES
        ]

    def add_to(self, routes: Routes) -> None:
        """Serve them. A CONNECT is how HTTP/2 opens a WebSocket (RFC 8441)."""
        opening = self._sessions.endpoint
        routes.add("GET", opening.path, opening, Access.SERVING)
        routes.add("CONNECT", opening.path, opening, Access.SERVING)
        for call in self._calls:
            routes.add("POST", call.endpoint.path, call.endpoint, Access.SERVING)

    def sweep(self, now: float) -> None:
        """Look at the sessions' deadlines."""
        self._sessions.sweep(now)

    def refuse(self) -> None:
        """No session begins any more; those that run go on."""
        self._sessions.is_draining = True

    def close(self) -> None:
        """Drop every connection to a worker."""
        self.sockets.close()
