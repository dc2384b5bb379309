"""What a shed request is answered, as the contract's tables have it."""

from __future__ import annotations

import pytest

from smgproxy.core.errors import (
    AdmissionQueueFull,
    AdmissionQueueTimeout,
    Preempted,
    SchedulerQueueFull,
    SchedulerQueueTimeout,
    Shed,
)

AGAIN_IN_2 = ((b"retry-after", b"2"),)
NO_SLOT = "timed out waiting for an admission slot"


@pytest.mark.parametrize(
    ("shed", "status", "code", "message"),
    [
        (
            AdmissionQueueFull(is_queueing=True),
            *(429, "admission_queue_full", "admission queue is at capacity"),
        ),
        (
            AdmissionQueueFull(is_queueing=False),
            *(429, "admission_queue_full"),
            "concurrency limit reached and queuing is disabled",
        ),
        (AdmissionQueueTimeout(), 503, "admission_queue_timeout", NO_SLOT),
        (
            SchedulerQueueFull(),
            *(429, "scheduler_queue_full"),
            "request queue is full for this priority class",
        ),
        (SchedulerQueueTimeout(), 503, "scheduler_queue_timeout", NO_SLOT),
    ],
)
def test_a_shed_has_its_status_code_and_message_and_may_come_back_in_2_seconds(
    shed: Shed, status: int, code: str, message: str
) -> None:
    assert (shed.status, shed.code, shed.message) == (status, code, message)
    assert shed.headers == AGAIN_IN_2


def test_a_preempted_request_may_come_back_in_1_second_and_is_told_why() -> None:
    shed = Preempted()
    assert (shed.status, shed.code) == (503, "scheduler_preempted")
    assert shed.headers == ((b"retry-after", b"1"), (b"x-smg-preempted", b"true"))
