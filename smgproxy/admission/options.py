"""What a user may tune about admission: the concurrency limit, the scheduler."""

from __future__ import annotations

import dataclasses

from smgproxy.admission.classes import CLASS_NAMES, SchedulerConfig
from smgproxy.core.options import flag

_LIMITS = "Rate Limiting"
_SCHEDULER = "Priority Scheduler"


def parse_class(text: str) -> str:
    """A class by name, as leniently written as in the priority header."""
    name = text.strip().lower()
    if name not in CLASS_NAMES:
        raise ValueError(
            f"must be one of {', '.join(CLASS_NAMES[::-1])}, got {ascii(text)}"
        )
    return name


def parse_config_path(text: str) -> SchedulerConfig:
    """What stands in the file of that path."""
    # Most gateways have no such file, and a YAML parser takes milliseconds to load.
    from smgproxy.admission.config import read_config

    return read_config(text)


@dataclasses.dataclass(frozen=True)
class LimiterOptions:
    """How many requests run at once, and how many wait for how long."""

    max_concurrent_requests: int = flag(
        -1,
        "--max-concurrent-requests",
        _LIMITS,
        "inference requests in flight at the same time, running streams included; "
        "0 or less = no limit",
    )
    queue_size: int = flag(
        100,
        "--queue-size",
        _LIMITS,
        "requests that may wait for one of those to end; more are answered 429, "
        "0 = none waits",
        minimum=0,
    )
    queue_timeout_secs: int = flag(
        60,
        "--queue-timeout-secs",
        _LIMITS,
        "longest time in seconds a request waits, then it is answered 503",
        minimum=0,
    )
    rate_limit_tokens_per_second: int | None = flag(
        None,
        "--rate-limit-tokens-per-second",
        _LIMITS,
        "admit this many more a second, even past --max-concurrent-requests; in front "
        "of the priority scheduler: a plain limit of requests a second (default: none)",
        minimum=0,
    )

    def __post_init__(self) -> None:
        if self.queue_size > 0 and self.queue_timeout_secs == 0:
            raise ValueError(
                "--queue-timeout-secs: must be above 0 while --queue-size is above 0; "
                "give a longest wait, or --queue-size 0 to let nobody wait"
            )


@dataclasses.dataclass(frozen=True)
class SchedulerOptions:
    """Whether requests have priorities, and what these mean."""

    priority_scheduler_enabled: bool = flag(
        False,
        "--priority-scheduler-enabled",
        _SCHEDULER,
        "schedule by priority class (header X-SMG-Priority) and what the workers can "
        "run at once, in place of --max-concurrent-requests and its queue",
    )
    priority_scheduler_default_max_class: str = flag(
        "default",
        "--priority-scheduler-default-max-class",
        _SCHEDULER,
        "highest class of tenants without a policy of their own: system, interactive, "
        "default or bulk",
        metavar="CLASS",
        parse=parse_class,
    )
    priority_scheduler_config: SchedulerConfig | None = flag(
        None,
        "--priority-scheduler-config",
        _SCHEDULER,
        "YAML file with the classes' limits and the tenants' highest classes "
        "(default: built-in classes, no policies)",
        metavar="FILE",
        parse=parse_config_path,
    )
    priority_scheduler_tenant_metric_top_n: int = flag(
        32,
        "--priority-scheduler-tenant-metric-top-n",
        _SCHEDULER,
        "tenants that appear by name in the scheduler's metrics; others share 'other'",
        minimum=0,
        maximum=10_000,
    )
    priority_scheduler_fairness: str = flag(
        "none",
        "--priority-scheduler-fairness",
        _SCHEDULER,
        "order inside a class: none = as they came, tenant = its waiting tenants in "
        "turn",
        choices=("none", "tenant"),
    )
