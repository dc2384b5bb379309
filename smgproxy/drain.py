"""How the gateway stops: keep serving a moment, then finish, then cut.

While a load balancer still believes the gateway is ready, new requests are served (the
settle window; ruling 21 says when there is one). Then the listening socket closes and
what runs may finish. When the grace period is over, or a second signal comes, the rest
is ended with a notice.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging

from smgproxy.core.clock import monotonic
from smgproxy.core.exchange import Verdict
from smgproxy.dispatch.serve import Dispatcher
from smgproxy.downstream.listener import Listener

_log = logging.getLogger("smgproxy.drain")
# The contract's settle window, which is at most half of the grace period anyway
# (reliability 6).
SETTLE_SECS = 5
# What the last notices and FINs may take to leave.
FLUSH_SECS = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class DrainTimes:
    """How long a shutdown may take, and who is told of it.

    ``settle_secs`` is what a user asked for: 0 is no settle window, None no wish. A
    wish, or a port for probes, means that somebody reads the gateway's readiness.
    """

    grace_secs: int
    settle_secs: int | None = None
    has_probe_port: bool = False

    @property
    def window_secs(self) -> int:
        """Whole seconds during which a draining gateway still accepts."""
        wanted = SETTLE_SECS if self.settle_secs is None else self.settle_secs
        return min(wanted, self.grace_secs // 2)

    @property
    def is_announced(self) -> bool:
        """Whether the window is waited out although nothing runs (ruling 21)."""
        return self.has_probe_port or self.settle_secs is not None


class Drain:
    """One shutdown, from the first signal to the last connection."""

    __slots__ = (
        "_dispatcher",
        "_listener",
        "_times",
        "_hurry",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        listener: Listener,
        times: DrainTimes,
    ) -> None:
        self._dispatcher = dispatcher
        self._listener = listener
        self._times = times
        self._hurry: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hurry(self) -> None:
        """A second signal came: end it at once (ruling 20)."""
        if not self._hurry.done():
            self._hurry.set_result(None)

    async def run(self) -> None:
        """Drain; returns when nothing is left to wait for."""
        began = monotonic()
        running = len(self._dispatcher.running)
        _log.info(
            "Beginning graceful shutdown: readiness draining in_flight=%d", running
        )
        grace, settle = self._times.grace_secs, self._times.window_secs
        if settle and (self._times.is_announced or running):
            _log.info(
                "Keeping listener open during load-balancer propagation window "
                "settle_secs=%d",
                settle,
            )
            await self._settle(settle)
        self._listener.stop_accepting()
        self._listener.drain()
        if not await self._wait_idle(began + grace - monotonic()):
            _log.warning(
                "Drain timed out, forcing shutdown with requests still in-flight "
                "remaining=%d timeout_secs=%d",
                len(self._dispatcher.running),
                grace,
            )
            self._dispatcher.cancel_all(Verdict.DRAINED)
            await self._wait_idle(FLUSH_SECS, may_hurry=False)
        else:
            _log.info("All in-flight requests drained")
        await self._flush()

    async def _settle(self, secs: float) -> None:
        if self._times.is_announced:
            await asyncio.wait((self._hurry,), timeout=secs)
        else:
            await self._wait_idle(secs)

    async def _wait_idle(self, secs: float, may_hurry: bool = True) -> bool:
        """Wait until no exchange runs; False when time or patience ran out first."""
        dispatcher = self._dispatcher
        if not dispatcher.running:
            return True
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_idle() -> None:
            if not idle.done():
                idle.set_result(None)

        dispatcher.on_idle = on_idle
        try:
            waited = {idle, self._hurry} if may_hurry else {idle}
            await asyncio.wait(
                waited, timeout=max(0.0, secs), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            dispatcher.on_idle = None
        return not dispatcher.running

    async def _flush(self) -> None:
        """Let the last bytes reach slow clients, for a moment only."""
        deadline = monotonic() + FLUSH_SECS
        while self._listener.open_connections and monotonic() < deadline:
            await asyncio.sleep(0.01)
