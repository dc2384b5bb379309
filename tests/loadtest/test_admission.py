"""What is asked of a gateway with a crowd in front of it."""

import pytest

from loadtest.admission import CAP, OVERTAKEN, faults
from loadtest.tools.crowd import overtaken

KEPT = {
    "status_200": 5.0,
    "status_429": 1.0,
    "status_503": 1.0,
    "worker_most": float(CAP),
    "unanswered": 0.0,
    "lost": 0.0,
    "overtaken": 3.0,
}
FREE = {"smg_admission_inflight": 0.0}


def test_a_run_that_keeps_every_promise() -> None:
    assert faults(KEPT, FREE) == []


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ({"worker_most": CAP + 1.0}, FREE),
        ({"status_500": 1.0}, FREE),
        ({"unanswered": 1.0}, FREE),
        ({"lost": 1.0}, FREE),
        ({"overtaken": OVERTAKEN + 1.0}, FREE),
        ({}, {"smg_admission_inflight": 1.0}),
        ({}, {}),
    ],
)
def test_each_broken_promise_is_told(
    change: dict[str, float], held: dict[str, float]
) -> None:
    assert len(faults({**KEPT, **change}, held)) == 1


def test_the_worst_place_lost() -> None:
    assert overtaken([1, 2, 4]) == 0
    assert overtaken([2, 3, 1, 4]) == 2
    assert overtaken([]) == 0
