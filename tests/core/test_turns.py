"""Turns at reading, among connections that have a lot to give."""

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest

from smgproxy.core.turns import TURN_BYTES, Outbox, ReadTurns


class Loop:
    """Turns that the test calls."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Keep it for the next turn."""
        self.due.append(callback)

    def turn(self) -> None:
        """Call what was due when the turn began."""
        for _ in range(len(self.due)):
            self.due.popleft()()


def test_nobody_goes_on_within_the_turn_of_its_read() -> None:
    loop = Loop()
    went: list[int] = []
    ReadTurns(loop.call_soon).wait(1, lambda: went.append(1))
    assert went == []
    loop.turn()
    assert went == [1]


def test_as_many_go_on_in_one_turn_as_a_turn_has_room_for_in_their_order() -> None:
    loop = Loop()
    turns = ReadTurns(loop.call_soon)
    went: list[int] = []
    for number in range(7):
        turns.wait(TURN_BYTES // 4, partial(went.append, number))
    loop.turn()
    assert went == [0, 1, 2, 3]
    loop.turn()
    assert went == [0, 1, 2, 3, 4, 5, 6]


def test_the_largest_read_goes_on_alone() -> None:
    loop = Loop()
    turns = ReadTurns(loop.call_soon)
    went: list[int] = []
    turns.wait(2 * TURN_BYTES, lambda: went.append(1))
    turns.wait(1, lambda: went.append(2))
    loop.turn()
    assert went == [1]


def test_one_that_waits_again_at_once_goes_behind_the_others() -> None:
    loop = Loop()
    turns = ReadTurns(loop.call_soon)
    went: list[str] = []

    def again() -> None:
        went.append("first")
        turns.wait(1, lambda: went.append("first again"))

    turns.wait(1, again)
    turns.wait(1, lambda: went.append("second"))
    loop.turn()
    loop.turn()
    assert went == ["first", "second", "first again"]


def test_the_loop_rests_when_nobody_waits() -> None:
    loop = Loop()
    turns = ReadTurns(loop.call_soon)
    turns.wait(1, lambda: None)
    loop.turn()
    assert not loop.due
    turns.wait(1, lambda: None)
    assert len(loop.due) == 1


def test_an_error_of_one_leaves_nobody_waiting() -> None:
    loop = Loop()
    turns = ReadTurns(loop.call_soon)
    went: list[int] = []
    turns.wait(1, lambda: went.append(1 // 0))
    turns.wait(1, lambda: went.append(2))
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    loop.turn()
    assert went == [2]


class Letter:
    """Something to send; it may write another."""

    def __init__(self, sent: list[str], name: str) -> None:
        self.sent = sent
        self.name = name
        self.next: Callable[[], None] | None = None

    def send_unsent(self) -> None:
        """Send it."""
        self.sent.append(self.name)
        if self.next is not None:
            self.next()


def test_what_is_sent_in_a_turn_leaves_in_order_when_it_is_over() -> None:
    loop, sent = Loop(), list[str]()
    outbox = Outbox(loop.call_soon)
    for name in "abc":
        outbox.add(Letter(sent, name))
    assert sent == [] and len(loop.due) == 1
    loop.turn()
    assert sent == ["a", "b", "c"]


def test_what_is_sent_while_others_leave_has_a_turn_of_its_own() -> None:
    loop, sent = Loop(), list[str]()
    outbox = Outbox(loop.call_soon)
    first = Letter(sent, "a")
    first.next = lambda: outbox.add(Letter(sent, "b"))
    outbox.add(first)
    loop.turn()
    assert sent == ["a"]
    loop.turn()
    assert sent == ["a", "b"]
