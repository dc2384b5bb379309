"""Worker responses: how each is relayed, and whether its connection may go on."""

from __future__ import annotations

import pytest

from tests.wire.bad_responses import CASES
from tests.wire.case import ResponseCase
from tests.wire.conftest import ReadResponses


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_response(case: ResponseCase, read_responses: ReadResponses) -> None:
    found = read_responses(case.data, eof=case.eof)

    assert found.is_malformed == case.malformed, found.reason
    assert [status for status, _, _ in found.seen] == [case.status] * bool(case.status)
    assert found.bodies == [case.body] * bool(case.status)
    assert [length for _, _, length in found.seen] == [case.length] * bool(case.status)
    assert found.ended == case.complete
    assert found.is_reusable == (case.reusable and case.complete)


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_corpus_is_large_enough() -> None:
    assert len(CASES) >= 25
