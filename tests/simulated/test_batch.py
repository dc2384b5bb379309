"""The pace of answers: smgproxy/simulated/batch.py, on a hand-wound clock."""

from collections.abc import Callable

from smgproxy.simulated.batch import TICK_SECS, Batch, Run

LATE_SECS = 2 * TICK_SECS


class Alarm:
    """A timer of the fake clock."""

    def __init__(self, when: float, ring: Callable[[], None]) -> None:
        self.when = when
        self.ring = ring
        self.is_off = False

    def cancel(self) -> None:
        self.is_off = True


class FakeClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.alarms: list[Alarm] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> Alarm:
        self.alarms.append(Alarm(when, callback))
        return self.alarms[-1]

    def pending(self) -> list[Alarm]:
        return [alarm for alarm in self.alarms if not alarm.is_off]

    def wind(self, seconds: float) -> None:
        """Let time pass, ringing every alarm at its moment."""
        end = self.now + seconds
        while due := [alarm for alarm in self.pending() if alarm.when <= end]:
            first = min(due, key=lambda alarm: alarm.when)
            self.alarms.remove(first)
            self.now = max(self.now, first.when)
            first.ring()
        self.now = end


class Words:
    """A reply whose steps are their own numbers."""

    def opening(self) -> list[bytes]:
        return [b"open"]

    def step(self, index: int) -> list[bytes]:
        return [b"%d" % index]

    def closing(self) -> list[bytes]:
        return [b"close"]


class Ear:
    """An outlet that notes what it is sent; full once it holds `room` events."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.heard: list[bytes] = []
        self.is_over = False
        self.room = room

    @property
    def is_full(self) -> bool:
        return len(self.heard) >= self.room

    def send_events(self, events: list[bytes], is_last: bool) -> None:
        assert not self.is_over
        self.heard += events
        self.is_over = is_last

    def send_whole(self, body: bytes) -> None:
        assert not self.is_over
        self.heard.append(body)
        self.is_over = True


def make(ttft_ms: float, rate: float) -> tuple[FakeClock, Batch]:
    clock = FakeClock()
    return clock, Batch(clock, ttft_ms, rate)


def stream(ear: Ear, steps: int = 3) -> Run:
    return Run(ear, Words(), steps, prompt_tokens=10)


def test_first_token_comes_after_ttft_and_not_before() -> None:
    clock, batch = make(100, 10)
    ear = Ear()
    batch.start(stream(ear))
    clock.wind(0.099)
    assert ear.heard == []
    clock.wind(0.001 + LATE_SECS)
    assert ear.heard == [b"open", b"0"]


def test_tokens_follow_at_the_set_rate_and_closing_comes_with_the_last() -> None:
    clock, batch = make(100, 10)
    ear = Ear()
    batch.start(stream(ear))
    clock.wind(0.2 + LATE_SECS)
    assert ear.heard == [b"open", b"0", b"1"]
    clock.wind(0.1)
    assert ear.heard == [b"open", b"0", b"1", b"2", b"close"]
    assert ear.is_over and batch.running == 0


def test_whole_answer_takes_ttft_and_all_its_tokens() -> None:
    clock, batch = make(100, 10)
    ear = Ear()
    batch.start(Run(ear, b"body", steps=3, prompt_tokens=10))
    clock.wind(0.399)
    assert ear.heard == []
    clock.wind(0.001 + LATE_SECS)
    assert ear.heard == [b"body"]


def test_unpaced_answer_is_over_when_start_returns() -> None:
    clock, batch = make(0, 0)
    ear = Ear()
    batch.start(stream(ear, steps=500))
    assert ear.is_over and len(ear.heard) == 502
    assert clock.alarms == []


def test_answer_without_a_token_still_opens_and_closes() -> None:
    clock, batch = make(10, 10)
    ear = Ear()
    batch.start(stream(ear, steps=0))
    clock.wind(0.01 + LATE_SECS)
    assert ear.heard == [b"open", b"close"]


def test_one_timer_serves_all_streams_and_none_is_left() -> None:
    clock, batch = make(50, 100)
    ears = [Ear() for _ in range(20)]
    for ear in ears:
        batch.start(stream(ear))
        clock.wind(0.001)
        assert len(clock.pending()) == 1
    clock.wind(1)
    assert all(ear.is_over for ear in ears)
    assert clock.pending() == []
    assert not batch.is_armed


def test_late_tick_catches_up() -> None:
    clock, batch = make(0, 100)
    ear = Ear()
    batch.start(stream(ear, steps=50))
    clock.now += 0.105
    clock.wind(0)
    assert ear.heard == [b"open", *(b"%d" % index for index in range(11))]


def test_full_outlet_gets_nothing_until_resumed() -> None:
    clock, batch = make(0, 0)
    ear = Ear(room=10)
    run = stream(ear, steps=200)
    batch.start(run)
    clock.wind(1)
    assert len(ear.heard) == 65 and not ear.is_over
    assert clock.pending() == []
    ear.room = 1_000_000
    batch.resume(run)
    clock.wind(LATE_SECS)
    assert ear.is_over
    assert ear.heard[1:-1] == [b"%d" % index for index in range(200)]


def test_resume_of_a_run_that_is_not_parked_changes_nothing() -> None:
    clock, batch = make(0, 10)
    ear = Ear()
    run = stream(ear)
    batch.start(run)
    batch.resume(run)
    clock.wind(1)
    assert ear.heard == [b"open", b"0", b"1", b"2", b"close"]


def test_dropped_run_says_no_more_and_takes_its_timer_along() -> None:
    clock, batch = make(0, 10)
    ear = Ear()
    run = stream(ear)
    batch.start(run)
    batch.drop(run)
    assert (batch.running, batch.aborted_total) == (0, 1)
    assert clock.pending() == []
    clock.wind(1)
    assert ear.heard == [b"open", b"0"]


def test_drop_leaves_the_neighbours_of_the_same_tick_alone() -> None:
    clock, batch = make(10, 10)
    gone, other = Ear(), Ear()
    run = stream(gone)
    batch.start(run)
    batch.start(stream(other))
    batch.drop(run)
    clock.wind(1)
    assert gone.heard == [] and other.is_over


def test_drop_of_a_parked_or_finished_run_is_harmless() -> None:
    clock, batch = make(0, 0)
    parked, over = stream(Ear(room=1), steps=200), stream(Ear())
    batch.start(parked)
    batch.start(over)
    batch.drop(parked)
    batch.drop(over)
    assert (batch.running, batch.aborted_total) == (0, 1)
    assert clock.pending() == []


def test_gauges_follow_what_runs_now() -> None:
    clock, batch = make(100, 10)
    batch.start(stream(Ear(), steps=5))
    assert (batch.running, batch.used_tokens(), batch.throughput()) == (1, 10, 0)
    clock.wind(0.25)
    assert (batch.running, batch.used_tokens(), batch.throughput()) == (1, 12, 10)
    clock.wind(1)
    assert (batch.running, batch.used_tokens(), batch.throughput()) == (0, 0, 0)
    assert (batch.started_total, batch.steps_total) == (1, 5)
    assert batch.prompt_tokens_total == 10
