import pytest

from smgproxy.fleet.background import Background
from smgproxy.fleet.jobs import Job, JobBoard, JobFailed, JobKind, QueueFull
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock


class Stage:
    """A board with one place to run and one to wait."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.clock.stand_in(patch, "smgproxy.fleet.jobs")
        self.fake = FakeBackground(self.clock)
        self.background = Background(self.fake.spawn)
        self.board = JobBoard(self.background, capacity=1, concurrency=1)

    def submit(self, worker_id: str, why: str = "") -> Job:
        job = Job(JobKind.ADD, worker_id, "http://" + worker_id)

        async def work() -> None:
            await self.fake.sleep(10)
            if why:
                raise JobFailed(why)

        self.board.submit(job, work)
        return job


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_job_shows_until_it_succeeds(it: Stage) -> None:
    job = it.submit("a")
    assert it.board.latest("a") is job
    assert job.shown() == {
        "job_type": "AddWorker",
        "worker_url": "http://a",
        "status": "processing",
        "message": None,
        "timestamp": job.timestamp,
    }
    it.clock.advance(10)
    assert it.board.latest("a") is None


def test_jobs_beyond_the_concurrency_wait_their_turn(it: Stage) -> None:
    it.submit("a")
    second = it.submit("b")
    assert second.status == "pending"
    it.clock.advance(10)
    assert second.status == "processing"


def test_jobs_beyond_the_capacity_are_refused(it: Stage) -> None:
    it.submit("a")
    it.submit("b")
    with pytest.raises(QueueFull):
        it.submit("c")
    assert it.board.latest("c") is None


def test_a_failed_job_shows_its_reason_for_five_minutes(it: Stage) -> None:
    job = it.submit("a", why="no answer")
    it.clock.advance(10)
    assert (job.status, job.message) == ("failed", "no answer")
    it.clock.advance(300)
    assert it.board.latest("a") is job
    it.clock.advance(1)
    assert it.board.latest("a") is None


def test_an_older_job_that_ends_does_not_hide_a_newer_one(it: Stage) -> None:
    it.submit("a")
    newer = Job(JobKind.REMOVE, "a", "http://a")

    def fail() -> None:
        raise JobFailed("not found")

    it.board.do(newer, fail)
    it.clock.advance(10)
    assert it.board.latest("a") is newer


def test_a_job_that_breaks_frees_its_place(it: Stage) -> None:
    async def work() -> None:
        await it.fake.sleep(1)
        raise ZeroDivisionError

    it.board.submit(Job(JobKind.ADD, "a", "http://a"), work)
    waiting = it.submit("b")
    with pytest.raises(ZeroDivisionError):
        it.clock.advance(1)
    assert it.board.latest("a") is None
    assert waiting.status == "processing"


def test_closing_ends_what_runs_and_starts_nothing_that_waits(it: Stage) -> None:
    it.submit("a")
    waiting = it.submit("b")
    it.board.close()
    it.background.close()
    assert waiting.status == "pending"
    assert (it.fake.running, len(it.background)) == (0, 0)
