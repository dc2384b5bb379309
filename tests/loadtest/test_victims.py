"""Workers that the chaos trial takes down and up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.stage import MeasureError, Stage
from loadtest.toolbox import Toolbox
from loadtest.trials.chaos import Victim
from loadtest.trials.trial import worker_state
from tests.e2e.process import free_ports

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    stage = Stage(ROOT, tmp_path, 1, None, None, Toolbox((), (), None, None))
    (port,) = free_ports(1)
    made = Victim(stage, 0, port)
    made.start()
    made.wait_until_ready()
    yield made
    made.kill()


def test_a_victim_that_was_killed_comes_up_again(victim: Victim) -> None:
    victim.kill()
    assert not victim.is_up
    with pytest.raises(MeasureError):
        worker_state(victim.port)
    victim.revive()
    victim.wait_until_ready()
    assert victim.is_up and worker_state(victim.port)["running"] == 0


def test_a_victim_that_was_stopped_goes_on_where_it_was(victim: Victim) -> None:
    victim.stop()
    assert not victim.is_up
    victim.revive()
    assert victim.is_up and worker_state(victim.port)["answered"] == 0
