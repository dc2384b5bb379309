"""Malformed, ambiguous and odd requests: each refused, or served as one thing."""

from __future__ import annotations

import pytest

from tests.wire import bad_bodies, bad_heads
from tests.wire.case import RequestCase
from tests.wire.conftest import ReadRequests

CASES = (*bad_heads.CASES, *bad_bodies.CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_request(case: RequestCase, read_requests: ReadRequests) -> None:
    found = read_requests(case.data)

    assert found.refused == case.refused, found.reason
    assert [request.line for request in found.seen] == [s.line for s in case.served]
    for number, (request, served) in enumerate(zip(found.seen, case.served), 1):
        is_last = number == len(case.served)
        assert request.is_ended == (case.ends or not is_last)
        if request.is_ended:
            assert request.body == served.body
        assert request.head.keeps_alive == served.keeps_alive
        assert request.head.expects_continue == served.expects_continue


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_corpus_is_large_enough() -> None:
    assert sum(case.refused > 0 for case in CASES) >= 60
