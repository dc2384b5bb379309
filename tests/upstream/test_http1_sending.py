"""When a request leaves: at the end of the turn of the loop that sent it."""

from __future__ import annotations

from smgproxy.core.errors import SendFailed, UpstreamError
from tests.upstream.stage import DEADLINE, OK, FakeLoop, Plant, ask


def test_requests_of_one_turn_leave_one_behind_the_other(loop: FakeLoop) -> None:
    plant = Plant(loop)
    one, other = plant.dial(), plant.dial()
    for connection, _ in (one, other):
        connection.send(ask(), b"w", DEADLINE)
    assert [transport.syscalls for _, transport in (one, other)] == [[], []]
    loop.turn()
    assert [len(transport.syscalls) for _, transport in (one, other)] == [1, 1]


def test_a_request_that_was_given_up_within_its_turn_never_leaves(
    loop: FakeLoop,
) -> None:
    plant = Plant(loop)
    connection, transport = plant.dial()
    connection.send(ask(), b"w", DEADLINE).abort(UpstreamError("gone"))
    loop.turn()
    assert transport.syscalls == []


def test_what_a_worker_says_before_the_request_has_left_is_no_answer_to_it(
    loop: FakeLoop,
) -> None:
    plant = Plant(loop)
    connection, transport = plant.dial()
    leg = connection.send(ask(), b"w", DEADLINE)
    transport.peer_sends(OK)
    error = leg.head.exception()
    assert isinstance(error, SendFailed) and error.is_resendable
    loop.turn()
    assert transport.syscalls == []
    assert plant.pool.counts() == (0, 0)
