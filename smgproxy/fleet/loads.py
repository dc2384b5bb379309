"""Polls every ready worker's load, each on its own clock."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from smgproxy.fleet.load_report import Report, from_loads, from_metrics
from smgproxy.fleet.outside import Fetch, Sleep, ask
from smgproxy.fleet.worker import Worker, WorkerState

# A worker that reports nothing is asked again only every so many intervals.
SILENT_INTERVALS = 6


class LoadMonitor:
    """Keeps ``worker.engine_load`` at the last report; None when there is none.

    A poll that fails clears the report: what is not known must not veto anybody.
    """

    __slots__ = ("_fetch", "_sleep", "_interval")

    def __init__(self, fetch: Fetch, sleep: Sleep, interval_secs: float) -> None:
        self._fetch = fetch
        self._sleep = sleep
        self._interval = interval_secs

    async def watch(self, worker: Worker) -> None:
        """Poll a worker, now and every interval, until it leaves."""
        source: Source | None = None
        while worker.state is not WorkerState.DRAINING and not worker.is_removed:
            pause = self._interval
            if worker.is_ready:
                worker.load_polls += 1
                was_known = source is not None
                source, report = await self._poll(worker, source)
                # It may have left ready while it was asked.
                worker.engine_load = report if worker.is_ready else None
                # Older figures are better than none when loads are compared.
                if worker.engine_load is not None:
                    worker.backlog.note_report(worker.engine_load)
                # A known source that fell silent is looked for anew next time.
                if source is None and not was_known:
                    pause *= SILENT_INTERVALS
            await self._sleep(pause)

    async def _poll(
        self, worker: Worker, known: Source | None
    ) -> tuple[Source | None, Report | None]:
        """The source that works, asked alone once it is known, and its report."""
        for source in SOURCES if known is None else (known,):
            path, read = source
            told = await ask(self._fetch, worker, path(worker), with_key=True)
            report = read(told.body) if told.is_ok else None
            if report is not None:
                return source, report
        return None, None


def _own_loads(worker: Worker) -> str:
    return f"/loads?model={quote(worker.model_id or '', safe='')}"


def _engine_loads(worker: Worker) -> str:
    return "/v1/loads?include=core,disagg,queues,memory"


def _metrics(worker: Worker) -> str:
    return "/metrics"


Source = tuple[Callable[[Worker], str], Callable[[bytes], Report | None]]

# In this order, so that a gateway may be another gateway's worker (contract).
SOURCES: tuple[Source, ...] = (
    (_own_loads, from_loads),
    (_engine_loads, from_loads),
    (_metrics, from_metrics),
)
