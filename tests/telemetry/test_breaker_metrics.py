from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.worker import Worker
from smgproxy.telemetry.breaker_metrics import breaker_families
from tests.telemetry.samples import lines


def samples(worker: Worker) -> set[str]:
    return set(lines(breaker_families([worker])))


def test_every_legal_transition_is_there_from_the_start() -> None:
    found = samples(Worker("id", "http://w"))
    for before, after in (
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
        ("half_open", "open"),
        ("open", "closed"),
    ):
        assert (
            'smg_worker_cb_transitions_total{worker="http://w",'
            f'from="{before}",to="{after}"}} 0' in found
        )


def test_a_breaker_shows_its_state_streaks_and_outcomes() -> None:
    worker = Worker("id", "http://w")
    worker.breaker.settings = BreakerSettings(failure_threshold=2)
    worker.breaker.note_success()
    for _ in range(2):
        worker.breaker.note_failure(now=1.0)
    assert samples(worker) >= {
        'smg_worker_cb_state{worker="http://w"} 1',
        'smg_worker_cb_consecutive_failures{worker="http://w"} 2',
        'smg_worker_cb_consecutive_successes{worker="http://w"} 0',
        'smg_worker_cb_outcomes_total{worker="http://w",outcome="success"} 1',
        'smg_worker_cb_outcomes_total{worker="http://w",outcome="failure"} 2',
        'smg_worker_cb_transitions_total{worker="http://w",from="closed",to="open"} 1',
        'smg_worker_cb_health_readmissions_total{worker="http://w"} 0',
    }
    worker.breaker.note_health_returned()
    assert samples(worker) >= {
        'smg_worker_cb_state{worker="http://w"} 2',
        'smg_worker_cb_health_readmissions_total{worker="http://w"} 1',
    }
