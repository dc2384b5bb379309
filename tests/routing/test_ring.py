"""Consistent hashing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from smgproxy.fleet.worker import Worker
from smgproxy.routing.ring import Ring, Rings, stable_hash
from tests.routing.fleet import workers

KEYS = [f"key-{n}".encode() for n in range(4000)]


def test_keys_are_spread_over_all_workers() -> None:
    fleet = workers(8)
    ring = Ring(fleet)
    counts = Counter(ring.owner(key) for key in KEYS)
    assert set(counts) == set(fleet)
    assert all(300 < count < 750 for count in counts.values())


@pytest.mark.parametrize("count", [2, 5, 10, 20])
def test_a_worker_that_comes_takes_about_its_share_and_no_key_moves_else(
    count: int,
) -> None:
    fleet = workers(count + 1)
    before, after = Ring(fleet[:-1]), Ring(fleet)
    moved = [key for key in KEYS if before.owner(key) is not after.owner(key)]
    assert {after.owner(key) for key in moved} == {fleet[-1]}
    share = len(moved) / len(KEYS)
    assert share == pytest.approx(1 / (count + 1), rel=0.35)


def test_leaving_out_a_worker_is_walking_past_it() -> None:
    fleet = workers(4)
    whole, without = Ring(fleet), Ring(fleet[:2] + fleet[3:])
    for key in KEYS[:500]:
        owner = whole.owner(key)
        if owner is not fleet[2]:
            assert without.owner(key) is owner


def test_the_order_of_workers_plays_no_part() -> None:
    fleet = workers(5)
    one, other = Ring(fleet), Ring(fleet[::-1])
    assert all(one.owner(key) is other.owner(key) for key in KEYS)


def test_ranks_of_one_url_are_workers_of_their_own() -> None:
    ranks = tuple(Worker(f"id{n}", f"http://w:1@{n}") for n in range(2))
    ring = Ring(ranks)
    assert {ring.owner(key) for key in KEYS[:100]} == set(ranks)


def test_hashes_are_the_same_in_every_process() -> None:
    program = "from smgproxy.routing.ring import stable_hash;print(stable_hash(b'k'))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == stable_hash(b"k")


def test_a_ring_is_made_once_for_each_set_of_candidates() -> None:
    fleet = workers(3)
    rings = Rings()
    ring = rings.of(fleet)
    assert rings.of(fleet) is ring
    assert rings.of(fleet[:2]) is not ring
    rings.forget(fleet[2])
    assert list(rings._rings) == [fleet[:2]]


def test_only_so_many_rings_are_kept() -> None:
    fleet = workers(100)
    rings = Rings()
    for number in range(100):
        rings.of(fleet[number : number + 1])
    assert len(rings._rings) == 64
