from smgproxy.fleet.states import HealthRecord
from smgproxy.fleet.worker import HealthSettings, WorkerState

THRESHOLDS = HealthSettings(failure_threshold=2, success_threshold=2)
GOOD, BAD = True, False


def walk(state: WorkerState, *probes: bool) -> list[WorkerState]:
    record = HealthRecord()
    states = []
    for is_healthy in probes:
        state = record.note(state, is_healthy, THRESHOLDS)
        states.append(state)
    return states


def test_a_ready_worker_leaves_after_failures_in_a_row() -> None:
    assert walk(WorkerState.READY, BAD, BAD) == [
        WorkerState.READY,
        WorkerState.NOT_READY,
    ]


def test_a_good_probe_between_failures_keeps_it_ready() -> None:
    assert walk(WorkerState.READY, BAD, GOOD, BAD)[-1] is WorkerState.READY


def test_it_has_failed_after_three_times_as_many_further_failures() -> None:
    states = walk(WorkerState.READY, *[BAD] * 8)
    assert states[6:] == [WorkerState.NOT_READY, WorkerState.FAILED]


def test_a_failed_worker_returns_after_good_probes_in_a_row() -> None:
    states = walk(WorkerState.FAILED, GOOD, BAD, GOOD, GOOD)
    assert states == [WorkerState.FAILED] * 3 + [WorkerState.READY]


def test_a_not_ready_worker_returns_after_good_probes_in_a_row() -> None:
    assert walk(WorkerState.NOT_READY, GOOD, GOOD)[-1] is WorkerState.READY


def test_a_pending_worker_has_failed_after_ten_times_the_threshold() -> None:
    states = walk(WorkerState.PENDING, *[BAD] * 20)
    assert states[18:] == [WorkerState.PENDING, WorkerState.FAILED]


def test_a_pending_worker_is_ready_after_good_probes_in_a_row() -> None:
    assert walk(WorkerState.PENDING, GOOD, GOOD)[-1] is WorkerState.READY


def test_a_draining_worker_stays_draining() -> None:
    assert set(walk(WorkerState.DRAINING, *[GOOD] * 9, *[BAD] * 9)) == {
        WorkerState.DRAINING
    }


def test_a_return_starts_counting_anew() -> None:
    states = walk(WorkerState.READY, BAD, BAD, GOOD, GOOD, BAD)
    assert states[-1] is WorkerState.READY
