"""Tickets: which ways lead through their states, and how they are told."""

from __future__ import annotations

import pytest

from smgproxy.admission.ticket import Notices, State, Ticket
from smgproxy.core.errors import AdmissionQueueTimeout
from tests.admission.asking import Request


@pytest.mark.parametrize(
    ("state", "may_send"),
    [(State.HELD, True), (State.COMMITTED, True), (State.PREEMPTED, False)],
)
def test_commit_wins_unless_preemption_came_first(state: int, may_send: bool) -> None:
    ticket = Ticket()
    ticket.state = state
    assert ticket.commit() is may_send


@pytest.mark.parametrize("state", range(State.FRESH, State.ENDED + 1))
def test_a_permit_is_owed_from_the_grant_on_even_when_preempted(state: int) -> None:
    ticket = Ticket()
    ticket.state = state
    assert ticket.has_permit is (
        state in (State.HELD, State.COMMITTED, State.PREEMPTED)
    )


def test_a_plain_ticket_may_be_told_anything() -> None:
    ticket = Ticket()
    ticket.on_grant()
    ticket.on_shed(AdmissionQueueTimeout())


def test_a_callback_that_raises_does_not_silence_the_next_call() -> None:
    notices = Notices()
    one, two = Request(), Request()
    one.state = two.state = State.HELD
    one.then = lambda: 1 / 0
    for each in (one, two):
        notices.add(each)
    with pytest.raises(ZeroDivisionError):
        notices.tell()
    notices.tell()
    assert two.heard == ["grant"]
