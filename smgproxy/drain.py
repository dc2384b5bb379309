"""How the gateway stops: keep serving a moment, then finish, then cut.

While a load balancer still believes the gateway is ready, new requests are served (the
settle window). Then the listening socket closes and what runs may finish. When the
grace period is over, or a second signal comes, the rest is ended with a notice.
"""

from __future__ import annotations

import asyncio
import logging

from smgproxy.core.clock import monotonic
from smgproxy.core.exchange import Verdict
from smgproxy.dispatch.serve import Dispatcher
from smgproxy.downstream.listener import Listener

_log = logging.getLogger("smgproxy.drain")
# The contract's settle window: five seconds, but at most half of the grace period.
SETTLE_SECS = 5
# What the last notices and FINs may take to leave.
FLUSH_SECS = 0.5


def settle_window(grace_secs: int) -> int:
    """Whole seconds during which a draining gateway still accepts (reliability 6)."""
    return min(SETTLE_SECS, grace_secs // 2)


class Drain:
    """One shutdown, from the first signal to the last connection."""

    __slots__ = (
        "_dispatcher",
        "_listener",
        "_grace",
        "_has_readiness_consumer",
        "_hurry",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        listener: Listener,
        grace_secs: int,
        has_readiness_consumer: bool,
    ) -> None:
        self._dispatcher = dispatcher
        self._listener = listener
        self._grace = grace_secs
        self._has_readiness_consumer = has_readiness_consumer
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
        settle = settle_window(self._grace)
        # Nobody looks at readiness and nothing runs: nothing to wait for (ruling 21).
        if self._has_readiness_consumer or running:
            _log.info(
                "Keeping listener open during load-balancer propagation window "
                "settle_secs=%d",
                settle,
            )
            await self._settle(settle)
        self._listener.stop_accepting()
        self._listener.drain()
        if not await self._wait_idle(began + self._grace - monotonic()):
            _log.warning(
                "Drain timed out, forcing shutdown with requests still in-flight "
                "remaining=%d timeout_secs=%d",
                len(self._dispatcher.running),
                self._grace,
            )
            self._dispatcher.cancel_all(Verdict.DRAINED)
            await self._wait_idle(FLUSH_SECS, may_hurry=False)
        else:
            _log.info("All in-flight requests drained")
        await self._flush()

    async def _settle(self, secs: float) -> None:
        if self._has_readiness_consumer:
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
