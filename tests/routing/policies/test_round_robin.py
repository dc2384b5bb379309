"""round_robin: each candidate in turn."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policies.round_robin import RoundRobinPolicy
from smgproxy.routing.request import RoutingRequest

ANY = RoutingRequest("m")


def _workers(count: int) -> tuple[Worker, ...]:
    return tuple(Worker(f"id-{n}", f"http://w{n}:1") for n in range(count))


def test_every_candidate_has_its_turn() -> None:
    workers = _workers(3)
    policy = RoundRobinPolicy()
    picked = [policy.pick(workers, ANY) for _ in range(7)]
    assert picked == [*workers, *workers, workers[0]]


def test_one_candidate_is_picked_again_and_again() -> None:
    workers = _workers(1)
    policy = RoundRobinPolicy()
    assert [policy.pick(workers, ANY) for _ in range(3)] == [*workers] * 3


def test_candidates_may_come_and_go() -> None:
    workers = _workers(4)
    policy = RoundRobinPolicy()
    for _ in range(3):
        policy.pick(workers, ANY)
    assert policy.pick(workers[:2], ANY) in workers[:2]
    picked = {policy.pick(workers, ANY) for _ in range(4)}
    assert picked == set(workers)
