"""random: any candidate, each as likely as the others."""

from __future__ import annotations

import random
from collections import Counter

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policies.random import RandomPolicy
from smgproxy.routing.request import RoutingRequest

ANY = RoutingRequest("m")
WORKERS = tuple(Worker(f"id-{n}", f"http://w{n}:1") for n in range(4))


def test_candidates_are_equally_likely() -> None:
    policy = RandomPolicy(random.Random(7).random)
    picked = Counter(policy.pick(WORKERS, ANY) for _ in range(4000))
    assert len(picked) == 4
    assert all(850 < count < 1150 for count in picked.values())


def test_the_last_possible_draw_is_still_a_candidate() -> None:
    assert RandomPolicy(lambda: 1.0 - 2.0**-53).pick(WORKERS, ANY) is WORKERS[-1]


def test_two_instances_do_not_draw_alike() -> None:
    first, second = RandomPolicy(), RandomPolicy()
    draws = [(first.pick(WORKERS, ANY), second.pick(WORKERS, ANY)) for _ in range(64)]
    assert any(one is not other for one, other in draws)
