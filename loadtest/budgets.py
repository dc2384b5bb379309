"""The budgets, in one table, and whether a run kept within them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from loadtest.results import Results
from loadtest.stats import Metric

OURS = "ours"
ORIGINAL = "smg"


class Outcome(Enum):
    """What can be said of a budget after a run."""

    MET = "met"
    MISSED = "MISSED"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Budget:
    """A bound on one metric of ours.

    With `versus`, the bound is a share of that program's value in the same run, or,
    with `is_difference`, how much more than it ours is; without, it is a value of its
    own.
    """

    text: str
    key: str
    bound: float
    versus: str | None = None
    is_floor: bool = False
    is_difference: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """A budget with what was measured for it."""

    budget: Budget
    outcome: Outcome
    measured: float | None
    compared: float | None

    @property
    def figure(self) -> float | None:
        """The number that is held against the bound."""
        if self.measured is None or self.budget.versus is None:
            return self.measured
        if self.budget.is_difference:
            return None if self.compared is None else self.measured - self.compared
        return self.measured / self.compared if self.compared else None


# Both run with `--policy round_robin`, save where another is named.
BUDGETS = (
    Budget(
        "CPU per buffered request, of the original's", "buffered.cpu", 0.40, ORIGINAL
    ),
    Budget(
        "CPU per buffered request, cache_aware, of the original's",
        "buffered-cache_aware.cpu",
        0.55,
        ORIGINAL,
    ),
    Budget(
        "CPU per event, 100 streams, of the original's",
        "streams100.cpu",
        0.75,
        ORIGINAL,
    ),
    Budget(
        "CPU per event, 500 streams, of the original's",
        "streams500.cpu",
        0.75,
        ORIGINAL,
    ),
    Budget(
        "Added p99, 100 streams, of the original's", "streams100.p99", 1.00, ORIGINAL
    ),
    Budget(
        "Added p99, 500 streams, of the original's", "streams500.p99", 1.00, ORIGINAL
    ),
    Budget("Peak RSS with 500 streams, MiB", "streams500.peak", 80),
    Budget("Streams without a stall, of 512", "stall.smooth", 512, is_floor=True),
    Budget("Events lost or reordered, 512 streams", "stall.lost", 0),
)


def _of_messages(load: str, key: str) -> tuple[Budget, Budget]:
    """What a relayed message may cost under a load: by itself, and of the original's.

    With few messages a second most of it is the kernel's, to wake the one who reads.
    """
    text = f"CPU per realtime message, {load}"
    return (
        Budget(f"{text}, us", key, 12),
        Budget(f"{text}, of the original's", key, 0.60, ORIGINAL),
    )


# A trial's budgets are those whose key begins with its name.
TRIAL_BUDGETS = (
    Budget(
        "CPU per buffered request over h2c, of the original's",
        "http2.cpu",
        1.20,
        ORIGINAL,
    ),
    Budget(
        "CPU per event over h2c, of the original's", "http2.event_cpu", 1.00, ORIGINAL
    ),
    *_of_messages("5k/s", "realtime.calm.cpu"),
    *_of_messages("12k/s", "realtime.steady.cpu"),
    *_of_messages("busy", "realtime.busy.cpu"),
    Budget("RSS growth, 1,000 idle realtime sessions, MiB", "realtime.idle", 30),
    Budget("Audio messages lost or reordered", "realtime.audio.lost", 0),
    Budget("Audio there and back, p99, ms", "realtime.audio.p99", 10),
    Budget("RSS growth, 8 streamed uploads of 64 MiB, MiB", "uploads.streamed", 32),
    Budget("RSS growth, the same buffered, of the bodies", "uploads.buffered", 1.6),
    Budget(
        "/health p99 beside 200 MiB streamed and 20 MiB parsed, ms",
        "uploads.beside_p99",
        25,
    ),
    Budget("/health p99 beside 200 MiB buffered, ms", "uploads.whole_p99", 25),
    Budget("RSS growth, a file of 200 MiB passed on, MiB", "uploads.passed", 32),
    Budget("RSS growth, a file of 200 MiB spooled, MiB", "uploads.spooled", 32),
    Budget("RSS growth per unread stream, MiB", "slow-readers.rss", 2),
    Budget(
        "Worker's sends that block, of 64", "slow-readers.blocked", 64, is_floor=True
    ),
    Budget("Longest gap added to live streams beside them, ms", "slow-readers.gap", 25),
    Budget("Streams reset on one connection", "resets.count", 5000, is_floor=True),
    Budget("Answer on it afterwards, MiB", "resets.answer", 10, is_floor=True),
    Budget("Streams the worker still runs then", "resets.left", 0),
    Budget("Most requests the worker had at once", "admission.most", 100),
    Budget("Answers other than 200, 429 and 503, or none", "admission.strays", 0),
    # Requests of one turn of the event loop have no order; more than this is no turn.
    Budget("Places lost to those who came later", "admission.overtaken", 100),
    Budget("Permits and places held at the end", "admission.held", 0),
    Budget("Answers that the contract does not have", "chaos.strays", 0),
    Budget("Requests that got no answer", "chaos.unanswered", 0),
    # Three attempts of 2 s with a sweep each, and a second for a busy machine.
    Budget("Slowest answer, s", "chaos.slowest", 8),
    Budget("In flight in the gateway at the end", "chaos.held", 0),
    Budget("In flight at the workers at the end", "chaos.left", 0),
    Budget("Descriptors the gateway left open", "chaos.files", 0),
    Budget("Exceptions in the gateway's log", "chaos.faults", 0),
    Budget("Workers used again, of 3", "chaos.used", 3, is_floor=True),
    Budget("Answers other than 200 once all are well", "chaos.failed", 0),
    Budget(
        "Tokens cached, points more than the original's",
        "affinity.cache_aware_cached",
        -2,
        ORIGINAL,
        is_floor=True,
        is_difference=True,
    ),
    Budget(
        "Tokens cached, points more than round_robin",
        "affinity.gain",
        20,
        is_floor=True,
    ),
    # No worse: both break ties at random, and two runs of either differ by as much.
    Budget(
        "Busiest's requests, cache_aware, of the original's",
        "affinity.cache_aware_busiest",
        1.10,
        ORIGINAL,
    ),
    Budget("Answers other than 200, or none", "affinity.failed", 0),
)


def budgets_of(trial: str) -> list[Budget]:
    """The budgets of one trial."""
    return [b for b in TRIAL_BUDGETS if b.key.partition(".")[0] == trial]


def judge(budget: Budget, results: Results, metrics: Mapping[str, Metric]) -> Verdict:
    """Hold one budget against the results."""
    metric = metrics[budget.key]
    own = results.summary(OURS, metric)
    other = results.summary(budget.versus, metric) if budget.versus else None
    measured = own.value if own else None
    compared = other.value if other else None
    figure = Verdict(budget, Outcome.UNKNOWN, measured, compared).figure
    if figure is None:
        outcome = Outcome.UNKNOWN
    elif figure >= budget.bound if budget.is_floor else figure <= budget.bound:
        outcome = Outcome.MET
    else:
        outcome = Outcome.MISSED
    return Verdict(budget, outcome, measured, compared)


def judge_all(
    results: Results,
    metrics: Mapping[str, Metric],
    budgets: Sequence[Budget] = BUDGETS,
) -> list[Verdict]:
    """Hold every budget against the results."""
    return [judge(budget, results, metrics) for budget in budgets]
