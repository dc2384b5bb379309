"""Probes every registered worker, each on its own clock."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from smgproxy.fleet.outside import Fetch, Sleep, Told, ask
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.states import HealthRecord
from smgproxy.fleet.worker import Worker, WorkerState

log = logging.getLogger(__name__)

MAX_PROBES_AT_ONCE = 128
# Workers that registered together would be probed together for ever.
JITTER = 0.1


class HealthMonitor:
    """Asks workers whether they are well and moves them between states.

    ``on_failed`` is told of a worker that has failed for good; it may remove it.
    """

    __slots__ = ("_registry", "_fetch", "_sleep", "_on_failed", "_random", "_turns")

    def __init__(
        self,
        registry: Registry,
        fetch: Fetch,
        sleep: Sleep,
        on_failed: Callable[[Worker], None],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._registry = registry
        self._fetch = fetch
        self._sleep = sleep
        self._on_failed = on_failed
        self._random = draw
        self._turns = asyncio.Semaphore(MAX_PROBES_AT_ONCE)

    async def watch(self, worker: Worker) -> None:
        """Probe a worker, now and every interval, until it leaves."""
        record = HealthRecord()
        while worker.state is not WorkerState.DRAINING and not worker.is_removed:
            # Looked at each time: PATCH may switch it on or off.
            if not worker.health.disable_health_check:
                async with self._turns:
                    is_healthy = await self._probe(worker)
                self._note(worker, record, is_healthy)
            spread = 1 + JITTER * (2 * self._random() - 1)
            await self._sleep(worker.health.check_interval_secs * spread)

    async def _probe(self, worker: Worker) -> bool:
        told = await self._ask(worker)
        if not told.status and not worker.is_ready and worker.may_speak_either:
            told = await self._ask_otherwise(worker)
        if told.is_ok:
            worker.successes += 1
        else:
            worker.failures += 1
            log.debug("probe of worker %s failed: %s", worker.url, told.why)
        return told.is_ok

    async def _ask(self, worker: Worker) -> Told:
        return await ask(self._fetch, worker, worker.health.endpoint, with_key=True)

    async def _ask_otherwise(self, worker: Worker) -> Told:
        """By the other version of HTTP, spoken from now on if it is understood.

        A worker that went down may come back as another program.
        """
        worker.http2 = not worker.http2
        told = await self._ask(worker)
        if told.status:
            version = "HTTP/2" if worker.http2 else "HTTP/1.1"
            log.warning("worker %s speaks %s now", worker.url, version)
        else:
            worker.http2 = not worker.http2
        return told

    def _note(self, worker: Worker, record: HealthRecord, is_healthy: bool) -> None:
        before = worker.state
        after = record.note(before, is_healthy, worker.health)
        if after is before:
            return
        level = logging.INFO if after is WorkerState.READY else logging.WARNING
        log.log(level, "worker %s is %s, was %s", worker.url, after.value, before.value)
        self._registry.set_state(worker, after)
        if after is WorkerState.FAILED:
            self._on_failed(worker)
