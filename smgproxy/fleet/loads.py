"""Polls every ready worker's load, each on its own clock, and judges the reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from urllib.parse import quote

from smgproxy.fleet.load_report import Report, from_loads, from_metrics, of_rank
from smgproxy.fleet.outside import Fetch, Sleep, ask
from smgproxy.fleet.overload import OverloadLimits
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState

log = logging.getLogger(__name__)

# A worker that has never reported anything is asked only every so many intervals.
SILENT_INTERVALS = 6
# Long enough for an engine that is busy, short enough to be true (contract).
POLL_TIMEOUT_SECS = 5.0
# Twenty times a metrics page of vLLM; reading one of this size takes about 6 ms, and
# the worst that can be made up of these bytes below 30.
REPORT_LIMIT_BYTES = 2 * 1024 * 1024


class LoadMonitor:
    """Keeps ``worker.engine_load`` at the last report; None when there is none.

    A poll that fails clears the report and the verdict of overload made on it: what is
    not known must not veto anybody. So no report is older than an interval and the
    time a poll may take. ``limits`` are for workers without any of their own; None:
    those are never overloaded. While ``is_wanted`` says no, only workers with limits of
    their own are polled.
    """

    __slots__ = ("_registry", "_fetch", "_sleep", "_interval", "_limits", "_is_wanted")

    def __init__(
        self,
        registry: Registry,
        fetch: Fetch,
        sleep: Sleep,
        interval_secs: float,
        limits: OverloadLimits | None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._registry = registry
        self._fetch = fetch
        self._sleep = sleep
        self._interval = interval_secs
        self._limits = limits
        self._is_wanted = is_wanted

    async def watch(self, *ranks: Worker) -> None:
        """Poll a worker, now and every interval, until it leaves.

        The ranks of one engine are polled together, through any of them that is ready.
        """
        source: Source | None = None
        while not all(map(_is_leaving, ranks)):
            pause = self._interval
            worker = next((one for one in ranks if one.is_ready), None)
            if worker is not None and not (worker.overload or self._is_wanted()):
                # What nobody keeps up to date must not veto anybody.
                self._note(ranks, None)
            elif worker is not None:
                worker.load_polls += 1
                source, report = await self._poll(worker, source)
                self._note(ranks, report)
                # One that fell silent is looked for anew every time: what was sent to
                # it meanwhile counts against it until it reports again.
                if source is None and not worker.backlog.is_reported:
                    pause *= SILENT_INTERVALS
            await self._sleep(pause)

    def _note(self, ranks: tuple[Worker, ...], report: Report | None) -> None:
        for worker in ranks:
            # It may have left ready while it was asked.
            share = report if worker.is_ready else None
            if share is not None and worker.dp_rank is not None:
                share = of_rank(share, worker.dp_rank)
            self._judge(worker, share)

    def _judge(self, worker: Worker, report: Report | None) -> None:
        worker.engine_load = report
        is_over = False
        # Older figures are better than none when loads are compared.
        if report is not None:
            worker.last_report = report
            worker.backlog.note_report(report)
            limits = worker.overload or self._limits
            is_over = limits is not None and limits.is_passed(report)
        if is_over is not worker.is_overloaded:
            level = logging.WARNING if is_over else logging.INFO
            text = "overloaded" if is_over else "no longer overloaded"
            log.log(level, "worker %s is %s by what it reports", worker.url, text)
            self._registry.set_overloaded(worker, is_over)

    async def _poll(
        self, worker: Worker, known: Source | None
    ) -> tuple[Source | None, Report | None]:
        """The source that works, asked alone once it is known, and its report."""
        for source in SOURCES if known is None else (known,):
            path, read = source
            told = await ask(
                self._fetch,
                worker,
                path(worker),
                with_key=True,
                timeout_secs=POLL_TIMEOUT_SECS,
                limit_bytes=REPORT_LIMIT_BYTES,
            )
            report = read(told.body) if told.is_ok else None
            if report is not None:
                return source, report
        return None, None


def _is_leaving(worker: Worker) -> bool:
    return worker.state is WorkerState.DRAINING or worker.is_removed


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
