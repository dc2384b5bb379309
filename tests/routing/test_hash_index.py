"""Which workers saw prompts that begin alike, by hashes of their heads."""

from __future__ import annotations

from smgproxy.routing.hash_index import HashIndex
from smgproxy.routing.request import TOKEN_BYTES, pack_tokens
from tests.routing.fleet import workers

FLEET = A, B, C, D = workers(4)
EVERYBODY = frozenset(FLEET)


def _heads(index: HashIndex, *ids: int, partition: str = "") -> list[bytes]:
    return index.heads(pack_tokens(ids), TOKEN_BYTES, partition)


def test_a_head_is_made_at_each_boundary_that_is_reached() -> None:
    index = HashIndex((2, 4), 60)
    assert [len(_heads(index, *range(count))) for count in (1, 2, 3, 4, 9)] == [
        *(0, 1, 1, 2, 2)
    ]
    assert _heads(index, 1, 2, 3, 4)[0] == _heads(index, 1, 2, 9, 9)[0]
    assert _heads(index, 1, 2, 3, 4)[1] != _heads(index, 1, 2, 9, 9)[1]


def test_partitions_share_no_head() -> None:
    index = HashIndex((2,), 60)
    assert _heads(index, 1, 2) != _heads(index, 1, 2, partition="p")


def test_the_deepest_head_with_an_eligible_holder_counts() -> None:
    index = HashIndex((2, 4), 60)
    index.record(_heads(index, 1, 2, 3, 4), A, 0)
    index.record(_heads(index, 1, 2), B, 0)
    heads = _heads(index, 1, 2, 3, 4)
    assert index.find(heads, EVERYBODY, 1) == [A]
    assert index.find(heads, frozenset((B, C)), 1) == [B]
    assert index.find(heads, frozenset((C,)), 1) == []
    assert set(index.find(_heads(index, 1, 2, 9, 9), EVERYBODY, 1)) == {A, B}


def test_a_placement_expires() -> None:
    index = HashIndex((1,), 10)
    heads = _heads(index, 1)
    index.record(heads, A, 0)
    assert index.find(heads, EVERYBODY, 9.9) == [A]
    assert index.find(heads, EVERYBODY, 10) == []
    index.record(heads, A, 10)
    assert index.find(heads, EVERYBODY, 19) == [A]


def test_a_fourth_holder_takes_the_place_of_the_stalest() -> None:
    index = HashIndex((1,), 60)
    heads = _heads(index, 1)
    for worker, now in ((A, 0), (B, 1), (C, 2), (A, 3), (D, 4)):
        index.record(heads, worker, now)
    assert set(index.find(heads, EVERYBODY, 5)) == {A, C, D}


def test_a_sweep_leaves_no_expired_head() -> None:
    index = HashIndex((1,), 10)
    for number in range(5000):
        index.record(_heads(index, number), A, 0)
    index.record(_heads(index, 1), B, 5)
    slices = 1
    while index.sweep(12):
        slices += 1
    assert (len(index), slices) == (1, 3)
    index.sweep(15)
    assert len(index) == 0


def test_only_so_many_heads_are_kept() -> None:
    index = HashIndex((1,), 60, most=100)
    for number in range(1000):
        index.record(_heads(index, number), A, 0)
    assert len(index) == 100
    assert index.find(_heads(index, 999), EVERYBODY, 0) == [A]
