"""The radix tree against a dictionary of strings."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from smgproxy.routing.radix import RadixTree
from smgproxy.routing.slots import NONE, ROOT

TEXTS = st.text("ab", max_size=12) | st.text("aé€😀", max_size=6)
HOLDERS = st.integers(0, 3)


def prefixes(text: Any, page: int) -> list[Any]:
    """All of its prefixes in whole pages but the empty one."""
    return [text[:end] for end in range(page, len(text) + 1, page)]


class RadixMachine(RuleBasedStateMachine):
    """What each holder has is a set of prefixes, each with the time of its last use.

    The model keeps a stamp for each prefix. Evicting drops all that bear the lowest
    stamp of one holder's, which is what dropping the oldest record means.
    """

    page = 1
    empty: str | bytes = ""

    def __init__(self) -> None:
        super().__init__()
        self.tree: RadixTree[Any] = RadixTree(10_000, self.page)
        self.held: dict[int, dict[Any, int]] = {}
        self.time = 0
        self.fresh = 0
        # Numbers are never used twice: who comes back has a new one.
        self.numbers = {each: each for each in range(4)}

    @initialize(budget=st.sampled_from([0, 8, 10_000]))
    def begin(self, budget: int) -> None:
        self.tree = RadixTree(10_000, self.page)
        self.tree.budget = budget  # nothing is evicted but by the rule below

    def form(self, text: str) -> Any:
        """A text as this tree takes it."""
        return text

    @rule(written=TEXTS, who=HOLDERS)
    def record(self, written: str, who: int) -> None:
        text = self.form(written)
        holder = self.numbers[who]
        self.tree.record(self.tree.match(text), holder)
        self.time += 1
        held = self.held.setdefault(holder, {})
        held.update(dict.fromkeys(prefixes(text, self.page), self.time))

    @rule(written=TEXTS)
    def look_up(self, written: str) -> None:
        text = self.form(written)
        found = self.tree.match(text)
        holders, matched = self.tree.holders(found)
        known = [
            prefix
            for prefix in prefixes(text, self.page)
            if any(prefix in held for held in self.held.values())
        ]
        longest = known[-1] if known else self.empty
        assert matched == len(longest)
        expected = {one for one, held in self.held.items() if longest in held}
        assert set(holders) == (expected if longest else set())
        assert len(holders) == len(set(holders))

    @rule()
    def evict_oldest(self) -> None:
        stamps = [stamp for held in self.held.values() for stamp in held.values()]
        if not self.tree.is_over or not stamps:
            return
        size = self.tree.size
        while self.tree.size == size:  # records of who left may be in front
            self.tree.evict(1)
        oldest = min(stamps)
        for holder, held in self.held.items():
            kept = {one: at for one, at in held.items() if at != oldest}
            self.held[holder] = kept

    @rule(who=HOLDERS)
    def purge(self, who: int) -> None:
        self.tree.purge(self.numbers[who])
        self.held.pop(self.numbers[who], None)
        self.fresh += 4
        self.numbers[who] = who + self.fresh

    @rule(most=st.integers(1, 3))
    def sweep(self, most: int) -> None:
        self.tree.sweep(most)

    @invariant()
    def size_is_that_of_what_is_held(self) -> None:
        sizes = {one: len(held) * self.page for one, held in self.held.items()}
        assert self.tree.size == sum(sizes.values())
        live = {one: size for one, size in self.tree.sizes.items() if size}
        assert live == {one: size for one, size in sizes.items() if size}

    @invariant()
    def is_well_formed(self) -> None:
        tree, slots = self.tree, self.tree._slots
        nodes = set(tree._children.values())
        kids: dict[int, list[int]] = {}
        for key, child in tree._children.items():
            edge, parent = slots.edges[child], slots.parents[child]
            assert edge and len(edge) % self.page == 0
            assert key == tree._key(parent, edge)
            assert parent == ROOT or parent in nodes
            kids.setdefault(parent, []).append(child)
        for node in nodes | {ROOT}:
            assert slots.kids[node] == len(kids.get(node, ()))
            assert slots.kid_sums[node] == sum(kids.get(node, ()))
        shadows = sum(len(more) for more in tree._more.values())
        assert len(tree) == len(nodes) + shadows
        for node in nodes:
            assert slots.kids[node] or slots.holders[node] != NONE or node in tree._more

    def teardown(self) -> None:
        """Everything can be forgotten, and then nothing is left."""
        for who in range(4):
            self.tree.purge(self.numbers[who])
        while self.tree.sweep(5):
            pass
        assert (self.tree.size, len(self.tree), self.tree._children) == (0, 0, {})
        assert self.tree._slots.newer[ROOT] == self.tree._slots.older[ROOT] == ROOT


class PagedMachine(RadixMachine):
    """The same with bytes, in pages of three."""

    page = 3
    empty = b""

    def form(self, text: str) -> Any:
        return text.encode()


TestRadix = RadixMachine.TestCase
TestPagedRadix = PagedMachine.TestCase


@given(st.lists(st.tuples(st.text("abc", max_size=40), HOLDERS), max_size=60))
def test_a_budget_is_kept_after_every_sweep(records: list[tuple[str, int]]) -> None:
    tree: RadixTree[str] = RadixTree(50)
    for text, holder in records:
        tree.record(tree.match(text), holder)
        assert tree.size <= 50 + 50 // 8 + 2 * 40
        while tree.evict(1):
            pass
        assert tree.size <= 50


@given(st.lists(st.text("abc", min_size=1, max_size=20), min_size=1, max_size=60))
def test_a_hot_path_is_never_lost(others: list[str]) -> None:
    """Whatever else comes in between, what was used last is still known."""
    tree: RadixTree[str] = RadixTree(60)
    hot = "the hot path"
    for other in others:
        tree.record(tree.match(other), 1)
        tree.record(tree.match(hot), 0)
        while tree.evict(1):
            pass
        assert tree.holders(tree.match(hot)) == ([0], len(hot))
