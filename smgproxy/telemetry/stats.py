"""Plain-int counters that the hot path raises; they become metrics at scrape time."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict

# Seconds; the contract's buckets of every duration histogram.
DURATION_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0),
    *(30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 480.0, 900.0, 1200.0),
    *(1800.0, 2700.0, 3600.0, 5400.0, 7200.0),
)
BACKOFF_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LOOP_BOUNDS = (0.0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
METHODS = frozenset(("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"))
# Later than this and a turn of the event loop counts as a stall (contract, layer 0).
STALL_SECS = 0.005
# Distinct model labels; what comes beyond shares one.
MAX_MODELS = 1024


class Histogram:
    """Counts by bucket; the last bucket is beyond every bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value; a bound belongs to the bucket below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Prometheus' form: how many were at most each bound."""
        buckets: list[tuple[str, float]] = []
        seen = 0
        for bound, count in zip(self.bounds, self.counts):
            seen += count
            buckets.append((f"{bound:g}", seen))
        buckets.append(("+Inf", seen + self.counts[-1]))
        return buckets


class PathStats:
    """What clients asked of one path with one method, and what they were answered.

    ``responses`` are those that are out, and clients that left, by status and error
    code; ``heads`` is how long requests waited for their response heads, in seconds.
    """

    __slots__ = ("requests", "responses", "heads")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.requests = 0
        self.responses: defaultdict[tuple[int, str], int] = defaultdict(int)
        self.heads = Histogram(bounds)


class HttpStats:
    """What clients asked and what they were answered.

    Paths are route templates or "other", methods the contract's or "OTHER", so no
    client chooses a label.
    """

    __slots__ = ("in_flight", "_paths")

    def __init__(self, bounds: tuple[float, ...] = DURATION_BOUNDS) -> None:
        self.in_flight = 0
        self._paths: defaultdict[tuple[str, str], PathStats] = defaultdict(
            lambda: PathStats(bounds)
        )

    def of(self, method: str, path: str) -> PathStats:
        """The counters of a request, which are looked up once."""
        return self._paths[method if method in METHODS else "OTHER", path]

    @property
    def requests(self) -> dict[tuple[str, str], int]:
        """How many arrived, by method and path."""
        return {key: one.requests for key, one in self._paths.items() if one.requests}

    @property
    def responses(self) -> dict[tuple[str, int, str], int]:
        """How many responses are over, by path, status and error code."""
        found: dict[tuple[str, int, str], int] = {}
        for (_, path), one in self._paths.items():
            for answer, count in one.responses.items():
                key = (path, *answer)
                found[key] = found.get(key, 0) + count
        return found

    @property
    def durations(self) -> dict[tuple[str, str], Histogram]:
        """How long requests waited for their heads, by method and path."""
        items = self._paths.items()
        return {key: one.heads for key, one in items if any(one.heads.counts)}


class RouterStats:
    """What was routed to HTTP workers, by model and endpoint.

    A model's label is its name if some worker serves it, "unknown" when the request
    named none, and "other" for the rest, because clients choose those. ``requests``
    were routed, or could not be; ``upstream`` are attempts by their answer's status
    and error code, a worker's or one of ours; ``durations`` is how long requests that
    did not fail were in the router's hands, in seconds.
    """

    __slots__ = (
        "requests",
        "errors",
        "upstream",
        "body_paths",
        "released_early_bytes",
        "retries",
        "exhausted",
        "sheds",
        "backoffs",
        "durations",
        "labels",
    )

    def __init__(self, bounds: tuple[float, ...] = DURATION_BOUNDS) -> None:
        self.requests: defaultdict[tuple[str, str, bool], int] = defaultdict(int)
        self.errors: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self.upstream: defaultdict[tuple[int, str], int] = defaultdict(int)
        # By how a request's body travelled, "buffered" or "streamed", and why.
        self.body_paths: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.retries: defaultdict[str, int] = defaultdict(int)  # by endpoint
        self.exhausted: defaultdict[str, int] = defaultdict(int)  # by endpoint
        self.backoffs: dict[int, Histogram] = {}  # by number of the retry
        self.sheds = {"selection": 0, "dispatch": 0}  # by where they were found
        self.released_early_bytes = 0  # request bodies let go with their first send
        self.durations: defaultdict[tuple[str, str], Histogram] = defaultdict(
            lambda: Histogram(bounds)
        )
        self.labels: set[str] = set()  # the models that were found to be served

    def label(self, model: str | None, is_served: bool) -> str:
        """The label a model is counted under."""
        if not model or model == "unknown":
            return "unknown"
        labels = self.labels
        if model in labels:
            return model
        if is_served and len(labels) < MAX_MODELS:
            labels.add(model)
            return model
        return "other"

    def count_error(self, model: str, endpoint: str, error_type: str) -> None:
        """A routed request failed."""
        self.errors[model, endpoint, error_type] += 1

    def count_body_path(self, is_streamed: bool, reason: str) -> None:
        """It was decided how a request's body travels."""
        self.body_paths["streamed" if is_streamed else "buffered", reason] += 1

    def count_retry(self, endpoint: str, number: int, secs: float) -> None:
        """An attempt is made again; ``number`` is 1 for the first time."""
        self.retries[endpoint] += 1
        histogram = self.backoffs.get(number)
        if histogram is None:
            histogram = self.backoffs[number] = Histogram(BACKOFF_BOUNDS)
        histogram.observe(secs)

    def count_exhausted(self, endpoint: str) -> None:
        """A request's last attempt failed, and would have been made again."""
        self.exhausted[endpoint] += 1


class LoopStats:
    """How late the event loop is: the lateness of a regular tick (ruling 31)."""

    __slots__ = ("delays", "stalls", "_period", "_expected")

    def __init__(self, period_secs: float) -> None:
        self.delays = Histogram(LOOP_BOUNDS)
        self.stalls = 0
        self._period = period_secs
        self._expected = time.monotonic() + period_secs

    def tick(self, now: float) -> None:
        """The tick came; uvloop's timers count whole milliseconds."""
        late = max(0.0, now - self._expected)
        self._expected = now + self._period
        self.delays.observe(late)
        if late > STALL_SECS:
            self.stalls += 1
