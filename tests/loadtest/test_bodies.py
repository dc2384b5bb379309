from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from loadtest.bodies import SIZE, Case, adversarial, conversation, usual

Cases = Callable[[], Iterator[tuple[str, Case]]]


@pytest.mark.parametrize("cases", [usual, adversarial])
def test_every_body_is_about_a_megabyte(cases: Cases) -> None:
    for name, case in cases():
        assert 0.9 * SIZE < len(case.body) < 1.2 * SIZE, name


def test_usual_bodies_are_read() -> None:
    for _, case in usual():
        assert case.read().body is case.body
        assert all(secs >= 0 for secs in case.stops())


def test_a_conversation_has_its_size() -> None:
    assert 430 < len(conversation(2, 150).body) < 480
    assert 19_000 < len(conversation(40, 450).body) < 21_000
