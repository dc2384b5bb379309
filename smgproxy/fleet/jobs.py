"""Jobs: what was asked of the fleet, and how far each has come.

A call of the worker API is answered at once; its job runs on, and its status shows in
GET /workers/{id} while it does and for a while after it failed.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from functools import partial
from typing import Any

from smgproxy.core.clock import monotonic
from smgproxy.fleet.background import Background

log = logging.getLogger(__name__)

FAILURE_KEPT_SECS = 300
MAX_FAILURES_KEPT = 1000

Work = Callable[[], Coroutine[Any, Any, None]]


class JobKind(Enum):
    """What a job does; the value is what GET /workers/{id} shows."""

    ADD = "AddWorker"
    UPDATE = "UpdateWorker"
    REMOVE = "RemoveWorker"


class QueueFull(Exception):
    """As many jobs wait as --job-queue-capacity allows."""


class JobFailed(Exception):
    """A job ended without what it was for; the message says why."""


class Job:
    """One thing asked of the fleet for one worker."""

    __slots__ = ("kind", "worker_id", "url", "status", "message", "timestamp", "ended")

    def __init__(self, kind: JobKind, worker_id: str, url: str) -> None:
        self.kind = kind
        self.worker_id = worker_id
        self.url = url
        self.status = "pending"
        self.message: str | None = None
        self.timestamp = int(time.time())
        self.ended = 0.0  # on the monotonic clock, once it failed

    def shown(self) -> dict[str, Any]:
        """As ``job_status`` of a worker."""
        return {
            "job_type": self.kind.value,
            "worker_url": self.url,
            "status": self.status,
            "message": self.message,
            "timestamp": self.timestamp,
        }


class JobBoard:
    """Runs jobs, so many at a time, and remembers the latest one of each worker."""

    __slots__ = (
        "_background",
        "_capacity",
        "_concurrency",
        "_waiting",
        "_running",
        "_latest",
    )

    def __init__(
        self, background: Background, capacity: int, concurrency: int
    ) -> None:
        self._background = background
        self._capacity = capacity
        self._concurrency = concurrency
        self._waiting: deque[tuple[Job, Work]] = deque()
        self._running = 0
        self._latest: dict[str, Job] = {}  # by worker id

    def latest(self, worker_id: str) -> Job | None:
        """The job to show for a worker; None when all went well."""
        job = self._latest.get(worker_id)
        if job is not None and self._is_past(job):
            del self._latest[worker_id]
            return None
        return job

    def submit(self, job: Job, work: Work) -> None:
        """Run a job when its turn comes. Raises QueueFull.

        ``work`` raises JobFailed when it comes to nothing.
        """
        if len(self._waiting) >= self._capacity:
            raise QueueFull("Job queue is full (--job-queue-capacity)")
        self._latest[job.worker_id] = job
        self._waiting.append((job, work))
        self._start_some()

    def do(self, job: Job, step: Callable[[], None]) -> None:
        """Carry out at once what takes no time, in the same form."""
        self._latest[job.worker_id] = job
        try:
            step()
        except JobFailed as error:
            self._failed(job, error)
        else:
            self._clear(job)

    def forget(self, worker_id: str) -> None:
        """The worker's id means nothing any more."""
        self._latest.pop(worker_id, None)

    def close(self) -> None:
        """Start no job that still waits."""
        self._waiting.clear()

    def _start_some(self) -> None:
        while self._waiting and self._running < self._concurrency:
            job, work = self._waiting.popleft()
            self._running += 1
            self._background.start(partial(self._run, job, work))

    async def _run(self, job: Job, work: Work) -> None:
        job.status = "processing"
        try:
            await work()
        except JobFailed as error:
            self._failed(job, error)
        finally:
            if job.status == "processing":
                self._clear(job)
            self._running -= 1
            self._start_some()

    def _clear(self, job: Job) -> None:
        if self._latest.get(job.worker_id) is job:
            del self._latest[job.worker_id]

    def _failed(self, job: Job, error: JobFailed) -> None:
        job.status, job.message, job.ended = "failed", str(error), monotonic()
        log.warning(
            "Failed job: type=%s, worker=%s, error=%s", job.kind.value, job.url, error
        )
        failed = [one for one in self._latest.values() if one.status == "failed"]
        for one in failed[: len(failed) - MAX_FAILURES_KEPT]:
            self._clear(one)

    def _is_past(self, job: Job) -> bool:
        age = monotonic() - job.ended
        return job.status == "failed" and age > FAILURE_KEPT_SECS
