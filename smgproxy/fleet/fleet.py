"""The fleet as the rest of the gateway sees it: add, change, remove, watch workers."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from smgproxy.fleet.background import Background, Errand
from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.fields import InvalidSpec
from smgproxy.fleet.health import HealthMonitor
from smgproxy.fleet.jobs import Job, JobBoard, JobFailed, JobKind, QueueFull
from smgproxy.fleet.loads import LoadMonitor
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.outside import Fetch, Sleep, Spawn
from smgproxy.fleet.overload import DEFAULT_LIMITS, OverloadLimits
from smgproxy.fleet.ranks import rank_url
from smgproxy.fleet.registration import Registration, RegistrationFailed
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.spec import WorkerPatch, WorkerSpec, check_api_key, check_url
from smgproxy.fleet.worker import HttpPoolSettings, Worker, WorkerState

log = logging.getLogger(__name__)


class UnknownWorker(LookupError):
    """No worker, and none to be, has this id."""


class AlreadyRegistered(Exception):
    """A worker has this URL; ``worker_id`` is its id."""

    def __init__(self, url: str, worker_id: str) -> None:
        super().__init__(f"{url} is worker {worker_id}")
        self.url = url
        self.worker_id = worker_id


class BeingRegistered(AlreadyRegistered):
    """A worker that is to have this URL is still being brought up."""


class Fleet:
    """Brings workers up, watches them, lets them go.

    ``http_pool``, ``breaker`` and ``limits`` (None: no overload protection) are for
    workers whose spec says nothing about it. ``fetch`` asks a worker, ``spawn`` runs a
    coroutine on its own, ``sleep`` waits; ``on_removed`` is told of each worker that
    the gateway has no more use for. ``needs_loads`` tells whether loads are polled even
    with --disable-load-monitoring, because something is decided by them.
    """

    __slots__ = (
        "registry",
        "options",
        "_fetch",
        "_sleep",
        "_on_removed",
        "_http_pool",
        "_breaker",
        "_limits",
        "_background",
        "_jobs",
        "_health",
        "_loads",
        "_pending",
        "_pending_ids",
        "_watches",
        "_order",
    )

    def __init__(
        self,
        registry: Registry,
        options: FleetOptions,
        fetch: Fetch,
        spawn: Spawn,
        on_removed: Callable[[Worker], None],
        *,
        sleep: Sleep,
        http_pool: HttpPoolSettings,
        breaker: BreakerSettings = BreakerSettings(),
        limits: OverloadLimits | None = DEFAULT_LIMITS,
        needs_loads: Callable[[], bool] = lambda: False,
    ) -> None:
        self.registry = registry
        self.options = options
        self._fetch = fetch
        self._sleep = sleep
        self._on_removed = on_removed
        self._http_pool = http_pool
        self._breaker = breaker
        self._limits = limits
        self._background = Background(spawn)
        self._jobs = JobBoard(
            self._background, options.job_queue_capacity, options.job_queue_concurrency
        )
        self._health = HealthMonitor(registry, fetch, sleep, self._worker_failed)
        self._loads = LoadMonitor(
            registry,
            fetch,
            sleep,
            options.load_monitor_interval,
            limits,
            (lambda: True) if not options.disable_load_monitoring else needs_loads,
        )
        self._pending: dict[str, str] = {}  # URL by the id it will have
        self._pending_ids: dict[str, str] = {}  # and the other way round
        self._watches: dict[Worker, list[Errand]] = {}
        self._order = itertools.count(1)

    def start(
        self,
        urls: Sequence[str],
        api_key: str | None,
        labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Register the workers to start with; a URL listed twice is one worker.

        ``labels``: those of some of them, by URL.
        Raises InvalidSpec for a URL that no worker can have. An unreachable worker is
        no error: it is asked again until it answers.
        """
        check_api_key(api_key)
        specs = [
            WorkerSpec(
                check_url(url), api_key=api_key, labels=(labels or {}).get(url, {})
            )
            for url in dict.fromkeys(urls)
        ]
        for spec in specs:
            self.add(spec)

    def add(self, spec: WorkerSpec) -> Job:
        """Register a worker; its id is the job's.

        Raises AlreadyRegistered, BeingRegistered, QueueFull.
        """
        registered = self.registry.by_url(spec.url) or self._rank_of(spec.url)
        if registered is not None:
            raise AlreadyRegistered(spec.url, registered.id)
        pending = self._pending_ids.get(spec.url)
        if pending is not None:
            raise BeingRegistered(spec.url, pending)
        worker = self._candidate(str(uuid.uuid4()), spec)
        worker.order = next(self._order)
        job = Job(JobKind.ADD, worker.id, spec.url)
        self._pending[worker.id] = spec.url
        self._pending_ids[spec.url] = worker.id
        try:
            self._jobs.submit(job, partial(self._register, worker, spec))
        except QueueFull:
            self._no_longer_pending(worker)
            raise
        return job

    def replace(self, worker_id: str, spec: WorkerSpec) -> Job:
        """Give a worker a new spec under its URL; it serves on while it is asked again.

        Raises UnknownWorker, QueueFull.
        """
        job = Job(JobKind.ADD, worker_id, self.url_of(worker_id))
        self._jobs.submit(job, partial(self._reregister, job, spec))
        return job

    def update(self, worker_id: str, patch: WorkerPatch) -> Job:
        """Change what PATCH may change. Raises UnknownWorker."""
        job = Job(JobKind.UPDATE, worker_id, self.url_of(worker_id))
        self._jobs.do(job, partial(self._patch, job, patch))
        return job

    def remove(self, worker_id: str) -> Job:
        """Let a worker go: a ready one drains first. Raises UnknownWorker."""
        job = Job(JobKind.REMOVE, worker_id, self.url_of(worker_id))
        self._jobs.do(job, lambda: self._leave(self._registered(job)))
        return job

    def url_of(self, worker_id: str) -> str:
        """The URL of a registered worker or of one to be. Raises UnknownWorker."""
        worker = self.registry.get(worker_id)
        url = self._pending.get(worker_id) if worker is None else worker.url
        if url is None:
            raise UnknownWorker(worker_id)
        return url

    def is_known(self, worker_id: str) -> bool:
        """Whether a worker or any rank of an engine came of the job with this id, or
        is yet to come."""
        if worker_id in self._pending or self.registry.get(worker_id) is not None:
            return True
        return bool(self.came_of(worker_id))

    def came_of(self, worker_id: str) -> list[Worker]:
        """What was registered by the job with this id and is still listed: one worker,
        or the ranks of one engine."""
        worker = self.registry.get(worker_id)
        if not self.options.dp_aware or worker is not None and worker.dp_rank is None:
            return [] if worker is None else [worker]
        return [one for one in self.registry.all() if one.engine_id == worker_id]

    def latest_job(self, worker_id: str) -> Job | None:
        """A worker's job that is under way or failed lately."""
        return self._jobs.latest(worker_id)

    def close(self) -> None:
        """End everything that runs for the fleet; the workers stay listed."""
        self._jobs.close()
        self._background.close()
        self._watches.clear()
        self._pending.clear()
        self._pending_ids.clear()

    # -- joining ---------------------------------------------------------------------

    def _candidate(self, worker_id: str, spec: WorkerSpec) -> Worker:
        """A worker that is not registered yet, with everything its spec says."""
        worker = Worker(
            worker_id,
            spec.url,
            http_pool=spec.pool_settings(self._http_pool),
            health=spec.health_settings(self.options.health()),
            api_key=spec.api_key,
        )
        worker.priority = spec.priority
        worker.cost = spec.cost
        worker.spec = spec.blocks()
        worker.breaker.settings = spec.breaker_settings(self._breaker)
        return worker

    async def _register(self, worker: Worker, spec: WorkerSpec) -> None:
        is_up = False
        try:
            await self._bring_up(worker, spec)
            is_up = True
        finally:
            self._no_longer_pending(worker)
            if not is_up:
                self._discard(worker)
        ranks = self._ranks(worker, spec)
        if ranks != [worker]:
            self._discard(worker)
        for one in ranks:
            one.state = WorkerState.READY
        # At once: whoever keeps step with the fleet looks at all of it each time.
        self.registry.add(*ranks)
        for one in ranks:
            log.info(
                "worker %s is registered: %s, model %r",
                *(one.url, one.runtime_type, one.model_id),
            )
        self._watch(ranks)

    def _ranks(self, worker: Worker, spec: WorkerSpec) -> list[Worker]:
        """The workers that an engine is: itself, or each of its ranks.

        The first rank has the id that was promised.
        """
        count = worker.dp_size
        if count is None or count == 1:
            return [worker]
        ranks = []
        for rank in range(count):
            worker_id = str(uuid.uuid4()) if rank else worker.id
            url = rank_url(worker.url, rank)
            one = self._candidate(worker_id, dataclasses.replace(spec, url=url))
            one.take_over(worker)
            one.order = worker.order
            one.engine_id = worker.id
            ranks.append(one)
        return ranks

    def _rank_of(self, url: str) -> Worker | None:
        """Any registered rank of the engine behind a URL."""
        if not self.options.dp_aware:
            return None
        return next((one for one in self.registry.all() if one.base_url == url), None)

    def _no_longer_pending(self, worker: Worker) -> None:
        self._pending.pop(worker.id, None)
        self._pending_ids.pop(worker.url, None)

    async def _reregister(self, job: Job, spec: WorkerSpec) -> None:
        candidate = self._candidate(job.worker_id, spec)
        try:
            await self._bring_up(candidate, spec)
        finally:
            self._discard(candidate)
        worker = self._registered(job)
        if self._jobs.latest(worker.id) not in (job, None):
            raise JobFailed(f"Worker {job.url} was changed again meanwhile")
        worker.take_over(candidate)
        self.registry.changed()

    async def _bring_up(self, worker: Worker, spec: WorkerSpec) -> None:
        try:
            spec.check_parsers()
            worker.overload = spec.overload_limits(self._limits)
        except InvalidSpec as error:
            raise JobFailed(str(error)) from None
        registration = Registration(
            worker, spec, self.options, self._fetch, self._sleep
        )
        try:
            await registration.run()
        except RegistrationFailed as error:
            raise JobFailed(str(error)) from None

    def _discard(self, candidate: Worker) -> None:
        """A candidate's connections close: it is not, or not itself, in the fleet."""
        candidate.is_removed = True
        self._on_removed(candidate)

    def _watch(self, ranks: list[Worker]) -> None:
        for worker in ranks:
            health = self._background.start(partial(self._health.watch, worker))
            self._watches[worker] = [health]
        loads = self._background.start(partial(self._loads.watch, *ranks))
        if len(ranks) == 1:
            self._watches[ranks[0]].append(loads)
        # That of several ends by itself when the last one is gone.

    # -- changing and leaving --------------------------------------------------------

    def _registered(self, job: Job) -> Worker:
        worker = self.registry.get(job.worker_id)
        if worker is None:
            raise JobFailed(f"Worker {job.url} not found")
        return worker

    def _patch(self, job: Job, patch: WorkerPatch) -> None:
        worker = self._registered(job)
        if patch.priority is not None:
            worker.priority = patch.priority
        if patch.cost is not None:
            worker.cost = patch.cost
        if patch.api_key is not None:
            worker.api_key = patch.api_key
        if patch.labels is not None:
            worker.labels = {**worker.labels, **patch.labels}
        if patch.health is not None:
            worker.health = dataclasses.replace(worker.health, **patch.health)
            if "health" in worker.spec:
                block = {**worker.spec["health"], **patch.health}
                worker.spec = {**worker.spec, "health": block}

    def _worker_failed(self, worker: Worker) -> None:
        if self.options.remove_unhealthy_workers:
            log.warning("worker %s has failed: it is removed", worker.url)
            self._leave(worker)

    def _leave(self, worker: Worker) -> None:
        """Drain a ready worker; one that serves nothing goes at once."""
        if worker.state is WorkerState.DRAINING:
            return
        settle_secs = worker.health.drain_settle_secs
        was_ready = worker.is_ready
        self.registry.set_state(worker, WorkerState.DRAINING)
        for watch in self._watches.pop(worker, ()):
            watch.cancel()
        if was_ready and settle_secs:
            log.info("worker %s is draining, gone in %g s", worker.url, settle_secs)
            self._background.start(partial(self._settle, worker, settle_secs))
        else:
            self._gone(worker)

    async def _settle(self, worker: Worker, secs: float) -> None:
        await self._sleep(secs)
        self._gone(worker)

    def _gone(self, worker: Worker) -> None:
        """Unlisted; exchanges that still run there hold the worker and finish."""
        self.registry.remove(worker)
        self._jobs.forget(worker.id)
        self._on_removed(worker)
        log.info("worker %s is removed, %d in flight", worker.url, worker.load)
