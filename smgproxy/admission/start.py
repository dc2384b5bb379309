"""Which kind of admission the options ask for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from smgproxy.admission.bucket import TokenBucket
from smgproxy.admission.capacity import fleet_capacity
from smgproxy.admission.classes import (
    RANKS,
    Ceilings,
    ReservationsTooLarge,
    SchedulerConfig,
)
from smgproxy.admission.lane import Observer
from smgproxy.admission.limiter import Limiter, RefillLimiter
from smgproxy.admission.options import LimiterOptions, SchedulerOptions
from smgproxy.admission.scheduler import Scheduler

_log = logging.getLogger("smgproxy.admission")


def start_admission(
    limits: LimiterOptions,
    scheduling: SchedulerOptions,
    waits: Sequence[Observer] | None = None,
) -> Limiter | Scheduler | None:
    """What admits requests for the life of the process; None admits them all.

    ``waits``: a histogram of queue seconds for each class, in order of rank.
    """
    if scheduling.priority_scheduler_enabled:
        scheduler = _scheduler(limits, scheduling, waits)
        if scheduler is not None:
            return scheduler
    capacity = limits.max_concurrent_requests
    if capacity <= 0:
        return None
    timeout, rate = limits.queue_timeout_secs, limits.rate_limit_tokens_per_second
    if rate:
        return RefillLimiter(capacity, limits.queue_size, timeout, rate)
    return Limiter(capacity, limits.queue_size, timeout)


def _scheduler(
    limits: LimiterOptions,
    scheduling: SchedulerOptions,
    waits: Sequence[Observer] | None,
) -> Scheduler | None:
    """The scheduler; None, and a line in the log, if its reservations are too large.

    No worker has registered yet: the fallback capacity is what counts (observed).
    """
    config = scheduling.priority_scheduler_config or SchedulerConfig()
    for notice in config.notices:
        _log.warning("--priority-scheduler-config: %s", notice)
    ceiling = RANKS[scheduling.priority_scheduler_default_max_class]
    most, rate = limits.max_concurrent_requests, limits.rate_limit_tokens_per_second
    try:
        return Scheduler(
            fleet_capacity((), most),
            config.limits,
            Ceilings(ceiling, config.ceilings),
            is_fair=scheduling.priority_scheduler_fairness == "tenant",
            rate=TokenBucket(most, rate) if rate and most > 0 else None,
            waits=waits,
            max_tenant_labels=scheduling.priority_scheduler_tenant_metric_top_n,
        )
    except ReservationsTooLarge as error:
        _log.error(
            "priority scheduler failed to start; falling back to "
            "--max-concurrent-requests: %s",
            error,
        )
        return None
