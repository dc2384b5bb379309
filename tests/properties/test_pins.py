"""Sticky sessions, whatever comes in which order: a key's pins are its model's own."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from smgproxy.fleet.worker import Worker
from smgproxy.routing.pins import Pins
from smgproxy.routing.policy import Policy
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.sticky import MAX_IN_FLIGHT, StickyPolicy
from tests.routing.fleet import KEY, workers

COUNT = 4
MODES = st.sampled_from(["delegate", "random", "min_load", "min_group"])


@dataclass(frozen=True)
class Step:
    """One request: of which model and key, who is there, and where chance points.

    ``is_over``: it ends before the next one comes.
    """

    model: str
    key: str
    candidates: frozenset[int]
    place: int
    is_over: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from("mn"),
        st.sampled_from("kl"),
        st.frozensets(st.integers(0, COUNT - 1), min_size=1),
        st.integers(0, COUNT - 1),
        st.booleans(),
    ),
    max_size=40,
)


class Pointed(Policy):
    """Picks the candidate that the step points at."""

    name = "pointed"
    place = 0

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        return candidates[self.place % len(candidates)]


class Scene:
    """A sticky policy over four workers, whose chance is the steps'."""

    def __init__(self, mode: str) -> None:
        self.fleet = workers(COUNT)
        self.inner = Pointed()
        self.policy = StickyPolicy(self.inner, Pins(), mode=mode, draw=self.draw)

    def draw(self) -> float:
        return self.inner.place / COUNT

    def play(self, step: Step) -> Worker:
        """Who was picked: the key's own worker, if that is there and has room."""
        candidates = tuple(self.fleet[n] for n in sorted(step.candidates))
        self.inner.place = step.place
        pin = self.policy.pins.find(step.model, step.key, 0)
        own = None if pin is None else pin.among(candidates)
        if pin is not None and own is not None and pin.in_flight(own) >= MAX_IN_FLIGHT:
            own = None
        request = RoutingRequest(step.model, {KEY: step.key.encode()})
        worker = self.policy.pick(candidates, request)
        assert worker in candidates
        assert own is None or worker is own
        assert request.pin is not None
        request.pin.enter(worker)
        if step.is_over:
            request.pin.leave(worker)
        return worker


@given(STEPS, st.sampled_from(["delegate", "random"]))
def test_what_a_models_keys_do_changes_nothing_for_anothers(
    steps: list[Step], mode: str
) -> None:
    together = Scene(mode)
    alone = {model: Scene(mode) for model in "mn"}
    for step in steps:
        mixed = together.play(step)
        assert mixed.url == alone[step.model].play(step).url


@given(STEPS, MODES)
def test_keys_are_counted_at_the_workers_that_run_them(
    steps: list[Step], mode: str
) -> None:
    scene = Scene(mode)
    running = set()
    for step in steps:
        worker = scene.play(step)
        if not step.is_over:
            running.add((worker.url, step.model, step.key))
    for worker in scene.fleet:
        keys = [one for one in running if one[0] == worker.url]
        assert worker.active_keys == len(keys)
