"""What a user may tune about the fleet: registration, health probes, load polls."""

from __future__ import annotations

import dataclasses

from smgproxy.core.options import flag
from smgproxy.fleet.worker import HealthSettings

_HEALTH = "Health Checks"
_STARTUP = "Worker Configuration"
_GENERAL = "General"
# What workers have that nobody said anything about (contract, reliability 3).
DRAIN_SETTLE_SECS = 5


def parse_probe_path(text: str) -> str:
    """A path that can be asked for as it is."""
    if not text.startswith("/"):
        raise ValueError("must begin with /, such as /health")
    if not text.isascii() or not text.isprintable() or " " in text or "#" in text:
        raise ValueError("must be printable ASCII without blanks and without #")
    return text


@dataclasses.dataclass(frozen=True)
class FleetOptions:
    """How workers join, how they are watched and how they leave."""

    worker_startup_timeout_secs: int = flag(
        1800,
        "--worker-startup-timeout-secs",
        _STARTUP,
        "give up registering a worker that has not come up in this time",
        minimum=1,
    )
    worker_startup_delay: int = flag(
        0,
        "--worker-startup-delay",
        _STARTUP,
        "seconds before the first probe of a worker that is to be registered",
        minimum=0,
    )
    worker_startup_check_interval: int = flag(
        30,
        "--worker-startup-check-interval",
        _STARTUP,
        "longest pause in seconds between two tries to reach a worker that is still "
        "starting; the first tries come every second",
        minimum=1,
    )
    health_failure_threshold: int = flag(
        3,
        "--health-failure-threshold",
        _HEALTH,
        "failed probes in a row after which a worker gets no more requests",
        minimum=1,
    )
    health_success_threshold: int = flag(
        2,
        "--health-success-threshold",
        _HEALTH,
        "good probes in a row after which it gets requests again",
        minimum=1,
    )
    health_check_timeout_secs: int = flag(
        5,
        "--health-check-timeout-secs",
        _HEALTH,
        "longest time a probe may take, those of registration included",
        minimum=1,
    )
    health_check_interval_secs: int = flag(
        60,
        "--health-check-interval-secs",
        _HEALTH,
        "seconds between two probes of a worker",
        minimum=1,
    )
    health_check_endpoint: str = flag(
        "/health",
        "--health-check-endpoint",
        _HEALTH,
        "path that is probed; 2xx means healthy",
        metavar="PATH",
        parse=parse_probe_path,
    )
    disable_health_check: bool = flag(
        False,
        "--disable-health-check",
        _HEALTH,
        "probe workers only to register them",
    )
    # Three-valued: unset follows discovery (settings.py).
    remove_unhealthy_workers: bool | None = flag(
        None,
        "--remove-unhealthy-workers",
        _HEALTH,
        "remove workers whose probes fail for long (default: only with discovery, "
        "else keep probing them)",
        aliases=("--worker-auto-recovery",),
    )
    # None: as the contract has it for workers, and no wish for the gateway itself.
    drain_settle_secs: int | None = flag(
        None,
        "--drain-settle-secs",
        _HEALTH,
        "how long a removed worker stays listed as draining, and how long a gateway "
        "that is told to stop goes on accepting, within half of its grace period; "
        "0 = not at all (default: 5)",
        minimum=0,
    )
    job_queue_capacity: int = flag(
        1000,
        "--job-queue-capacity",
        _GENERAL,
        "registrations that may wait for their turn; more are refused",
        minimum=1,
    )
    job_queue_concurrency: int = flag(
        200,
        "--job-queue-concurrency",
        _GENERAL,
        "registrations that may run at the same time",
        minimum=1,
    )
    dp_aware: bool = flag(
        False,
        "--dp-aware",
        "Routing Policy",
        "each data-parallel rank of an engine is a worker of its own, named URL@RANK; "
        "requests tell the engine which rank they are for",
    )
    load_monitor_interval: int = flag(
        10,
        "--load-monitor-interval",
        _GENERAL,
        "seconds between two polls of each worker's load",
        minimum=1,
    )
    disable_load_monitoring: bool = flag(
        False,
        "--disable-load-monitoring",
        _GENERAL,
        "do not poll the workers' loads",
    )

    def health(self) -> HealthSettings:
        """The health settings of a worker whose spec says nothing about it."""
        settle = self.drain_settle_secs
        return HealthSettings(
            timeout_secs=self.health_check_timeout_secs,
            check_interval_secs=self.health_check_interval_secs,
            success_threshold=self.health_success_threshold,
            failure_threshold=self.health_failure_threshold,
            disable_health_check=self.disable_health_check,
            drain_settle_secs=DRAIN_SETTLE_SECS if settle is None else settle,
            endpoint=self.health_check_endpoint,
        )
