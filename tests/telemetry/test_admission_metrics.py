"""Admission's families: the names, labels and values that the contract gives them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from smgproxy.admission.bucket import TokenBucket
from smgproxy.admission.classes import CLASS_NAMES
from smgproxy.admission.limiter import Limiter
from smgproxy.admission.scheduler import Scheduler
from smgproxy.core.errors import Shed
from smgproxy.telemetry.admission_metrics import limiter_families, scheduler_families
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.stats import Histogram
from tests.admission.asking import Request, limits, submitted


def samples(families: Iterable[Family]) -> dict[tuple[str, ...], float]:
    """Every sample that is not 0, by its name and its label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.metric().samples
        if sample.value and not sample.name.endswith("_bucket")
    }


def test_the_limiters_families() -> None:
    limiter = Limiter(1, 1, 5)
    holder, _ = submitted(limiter), submitted(limiter)
    with pytest.raises(Shed):
        submitted(limiter)
    limiter.expire(5.0)
    limiter.release(holder, 5.0)
    submitted(limiter), submitted(limiter)
    assert samples(limiter_families(limiter)) == {
        ("smg_admission_inflight",): 1,
        ("smg_admission_queue_depth",): 1,
        ("smg_admission_queue_rejected_total", "full"): 1,
        ("smg_admission_queue_rejected_total", "timeout"): 1,
        ("smg_http_rate_limit_total", "allowed"): 2,
        ("smg_http_rate_limit_total", "rejected"): 2,
    }


def test_a_shed_without_a_queue_is_a_rejection_but_not_the_queues() -> None:
    limiter = Limiter(1, 0, 5)
    submitted(limiter)
    with pytest.raises(Shed):
        submitted(limiter)
    found = samples(limiter_families(limiter))
    assert found["smg_http_rate_limit_total", "rejected"] == 1
    assert ("smg_admission_queue_rejected_total", "full") not in found


def test_the_schedulers_families() -> None:
    waits = [Histogram((1.0,)) for _ in CLASS_NAMES]
    low, high = limits(starvation=2), limits(0, 4, can_preempt=True)
    one = Scheduler(2, (low, low, high, high), rate=TokenBucket(4, 1), waits=waits)
    holder = submitted(one)
    bulk = submitted(one, priority=b"bulk")
    assert not one.submit(Request(priority=b"system"), 0.0)  # lowered to default
    assert not one.submit(Request(priority=b"?"), 0.0)
    with pytest.raises(Shed):  # by the rate
        submitted(one)
    one.release(holder, 0.5)
    one.cancel(bulk, 2.0)
    assert samples(scheduler_families(one, waits)) == {
        ("smg_scheduler_admit_total", "bulk", "admitted"): 1,
        ("smg_scheduler_admit_total", "default", "admitted"): 3,
        ("smg_scheduler_starvation_promotion_total", "default"): 1,
        ("smg_scheduler_queue_wait_seconds_count", "default"): 2,
        ("smg_scheduler_queue_wait_seconds_sum", "default"): 2.5,
        ("smg_scheduler_clamp_total", "anonymous", "system", "default"): 1,
        ("smg_scheduler_unknown_priority_value_total", "anonymous"): 1,
        ("smg_scheduler_inflight", "default"): 2,
        ("smg_scheduler_queue_size_limit", "bulk"): 10,
        ("smg_scheduler_queue_size_limit", "default"): 10,
        ("smg_scheduler_queue_size_limit", "interactive"): 4,
        ("smg_scheduler_queue_size_limit", "system"): 4,
        ("smg_scheduler_class_capacity_pressure", "default"): 1,
        ("smg_scheduler_utilization",): 1,
        ("smg_http_rate_limit_total", "rejected"): 1,
    }


def test_a_preemption_appears_with_both_classes_and_as_an_outcome() -> None:
    low, high = limits(), limits(can_preempt=True)
    one = Scheduler(1, (low, high, high, high))
    submitted(one, priority=b"bulk"), submitted(one)
    found = samples(scheduler_families(one, []))
    assert found["smg_scheduler_preemption_total", "bulk", "default"] == 1
    assert found["smg_scheduler_admit_total", "bulk", "preempted"] == 1
