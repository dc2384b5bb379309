"""When a request leaves: at the end of the turn of the loop that sent it."""

from __future__ import annotations

from smgproxy.core.errors import UpstreamError
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


def test_a_worker_that_answers_before_it_was_asked_is_not_used_again(
    loop: FakeLoop,
) -> None:
    plant = Plant(loop)
    connection, transport = plant.dial()
    connection.send(ask(), b"w", DEADLINE)
    transport.peer_sends(OK)
    loop.turn()
    assert transport.syscalls == []
    assert plant.pool.counts() == (0, 0)
