"""The kinds of load, one module each. A new one is added to `scenarios`."""

from dataclasses import dataclass

from loadtest.programs import CACHE_AWARE
from loadtest.scenarios.buffered import Buffered
from loadtest.scenarios.idle import Idle
from loadtest.scenarios.scenario import Scenario
from loadtest.scenarios.stall import Stall
from loadtest.scenarios.streams import Streams


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long each scenario measures."""

    rounds: int
    buffered_secs: float
    streams_secs: float


FULL = Pace(rounds=3, buffered_secs=3, streams_secs=4)
QUICK = Pace(rounds=1, buffered_secs=1, streams_secs=2)


def scenarios(pace: Pace) -> list[Scenario]:
    """All scenarios, in the order of the table."""
    return [
        Buffered(pace.buffered_secs),
        Buffered(pace.buffered_secs, CACHE_AWARE),
        Streams(100, pace.streams_secs),
        Streams(500, pace.streams_secs),
        Stall(),
        Idle(),
    ]
