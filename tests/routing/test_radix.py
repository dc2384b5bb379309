"""The radix tree: what it knows, what bounds it. Its properties are in properties/."""

from __future__ import annotations

import random

import pytest

from smgproxy.routing.radix import CHARACTERS_PER_NODE, MAX_DEPTH, RadixTree
from smgproxy.routing.slots import common


def _tree(budget: int = 1 << 20, *texts: str) -> RadixTree[str]:
    tree: RadixTree[str] = RadixTree(budget)
    for holder, text in enumerate(texts):
        tree.record(tree.match(text), holder)
    return tree


def _known(tree: RadixTree[str], text: str) -> tuple[list[int], int]:
    return tree.holders(tree.match(text))


def test_the_longest_known_prefix_is_matched_with_all_who_hold_it() -> None:
    tree = _tree(1 << 20, "system: be brief", "system: be long")
    assert _known(tree, "system: be brief and kind") == ([0], 16)
    assert _known(tree, "system: be") == ([0, 1], 10)
    assert _known(tree, "systematic") == ([0, 1], 6)
    assert _known(tree, "other") == ([], 0)
    assert _known(tree, "") == ([], 0)


def test_a_prefix_counts_once_for_each_holder() -> None:
    tree = _tree(1 << 20, "abcdef", "abcxyz")
    assert tree.sizes == {0: 6, 1: 6}
    assert tree.size == 12
    tree.record(tree.match("abcdef"), 0)
    assert tree.size == 12


def test_a_conversation_that_grows_is_one_node() -> None:
    tree = _tree()
    text = "begin"
    for turn in range(50):
        text += f" turn {turn}"
        tree.record(tree.match(text), 3)
    assert (len(tree), tree.size) == (1, len(text))


def test_matching_is_by_character_whatever_its_width() -> None:
    tree = _tree(1 << 20, "aé€😀b")
    for end in range(1, 6):
        assert _known(tree, "aé€😀b"[:end] + "#") == ([0], end)


def test_the_least_recently_used_record_goes_first() -> None:
    tree = _tree(30, "a" * 10, "b" * 10, "c" * 10)
    tree.record(tree.match("a" * 10), 0)
    tree.record(tree.match("d" * 3), 3)
    while tree.evict(1):
        pass
    assert [_known(tree, one * 10)[1] for one in "abcd"] == [10, 0, 10, 3]


def test_what_is_recorded_twice_in_a_row_is_evicted_in_its_turn() -> None:
    tree = _tree(25, "a" * 10, "b" * 10)
    for _ in range(2):
        tree.record(tree.match("a" * 10), 0)
    tree.record(tree.match("a" * 12), 0)
    tree.record(tree.match("a" * 12), 0)
    tree.record(tree.match("c" * 10), 2)
    while tree.evict(1):
        pass
    assert [_known(tree, one * 12)[1] for one in "abc"] == [12, 0, 10]


def test_who_left_is_matched_no_more_and_counts_for_nothing() -> None:
    tree = _tree(1 << 20, "common of both", "common of this")
    tree.purge(0)
    assert _known(tree, "common of both") == ([1], 10)
    assert tree.size == 14
    while tree.sweep(1):
        pass
    assert _known(tree, "common of both") == ([1], 10)
    assert tree.sizes == {1: 14}


def test_everything_a_client_may_send_is_bounded_in_nodes() -> None:
    tree = _tree(CHARACTERS_PER_NODE * 2000)
    draw = random.Random(5)
    for _ in range(20_000):
        tree.record(tree.match(f"{draw.random():.9f}"), 0)
    assert len(tree) <= 2000 * 9 // 8 + 2
    assert tree._slots.used == len(tree)


def test_200_000_distinct_prompts_stay_within_the_budget() -> None:
    tree = _tree(100_000)
    for number in range(200_000):
        tree.record(tree.match(f"{number * 7919 % 200_003:06d} tell me more"), 0)
    assert tree.size <= 100_000 * 9 // 8 + 20
    assert len(tree._slots.edges) < 4096


def test_every_prefix_of_a_prompt_does_not_make_walks_long() -> None:
    """Each of these cuts the long prompt's edge once more."""
    tree = _tree(1 << 20, "x" * 5000)
    for length in range(1, 1000):
        tree.record(tree.match("x" * length + "y"), 1)
    found = tree.match("x" * 5000)
    assert found.depth <= MAX_DEPTH
    tree.record(found, 0)
    assert tree.match("x" * 5000).depth <= MAX_DEPTH


@pytest.mark.parametrize("length", [1 << 17, (1 << 17) + 1, 1 << 18])
def test_of_a_very_long_prompt_the_beginning_is_remembered(length: int) -> None:
    tree = _tree()
    tree.record(tree.match("x" * length), 0)
    assert tree.size == tree.longest == 1 << 17


def test_a_long_prompt_makes_room_in_slices() -> None:
    tree = _tree(1 << 20)
    draw = random.Random(6)
    while not tree.is_over:
        tree.record(tree.match(f"{draw.random():.9f}" * 7), 0)
    for number in range(40):
        tree.record(tree.match(f"{number}" + "x" * 120_000), 1)
        assert tree.size <= (1 << 20) * 9 // 8 + 120_002
    while tree.evict(50):
        pass
    assert tree.size <= 1 << 20


def test_a_megabyte_is_compared_in_slices_and_not_by_character() -> None:
    """Of characters, one by one, this would take minutes."""
    tree = _tree(1 << 26)
    text = "x" * (1 << 20)
    tree.record(tree.match(text), 0)
    for number in range(1000):
        tree.record(tree.match(f"{text[:-1]}{number}"), 1)
        assert tree.match(text).matched == 1 << 20


def _nested(texts: int, holders: int) -> RadixTree[str]:
    """Prompts that are each the beginning of a hundred branches on the way."""
    tree = _tree(1 << 24)
    longest = []
    for number in range(texts):
        text = ""
        for piece in range(100):
            text += f"{number} {piece} {'x' * 20}"
            tree.record(tree.match(text + "!"), 0)
        longest.append(text)
    for holder in range(holders):
        for text in longest:
            tree.record(tree.match(text), holder)
    return tree


def test_a_slice_of_eviction_is_counted_in_nodes_and_not_in_records() -> None:
    tree = _nested(20, holders=2)
    tree.budget = 0
    before, has_more, most = len(tree), True, 0
    while has_more:
        has_more = tree.evict(50)
        most = max(most, before - len(tree))
        before = len(tree)
    assert before == 0
    assert most <= 50 + 2 * MAX_DEPTH


@pytest.mark.parametrize("is_purge", [False, True])
def test_a_slice_counts_what_is_copied_to_join_long_edges(is_purge: bool) -> None:
    tree = _tree(1 << 24)
    trunk = "x" * 100_000
    for number in range(100):
        tree.record(tree.match(trunk + "y" * number + "!"), 0)
    tree.budget = 0
    if is_purge:
        tree.purge(0)
    before = len(tree)
    assert tree.sweep(50) if is_purge else tree.evict(50)
    # Each branch that goes has the trunk copied, at 25 of the 50.
    assert before - len(tree) <= 6


def test_a_paged_tree_knows_whole_pages() -> None:
    tree: RadixTree[bytes] = RadixTree(1 << 20, page=4)
    tree.record(tree.match(b"aaaabbbbcc"), 0)
    assert tree.size == 8
    assert tree.holders(tree.match(b"aaaabbbb")) == ([0], 8)
    assert tree.holders(tree.match(b"aaaabbbxcccc")) == ([0], 4)
    assert tree.holders(tree.match(b"aaa")) == ([], 0)


@pytest.mark.parametrize("at", [0, 1, 63, 64, 65, 319, 320, 321, 5000])
def test_a_difference_is_found_wherever_it_is(at: int) -> None:
    edge = "x" * 6000
    assert common(edge, "--" + "x" * at + "y" + "x" * 6000, 2) == at
    assert common(edge, "--" + "x" * at, 2) == at
    assert common(edge[:at], "--" + edge, 2) == at
