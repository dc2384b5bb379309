"""What the tests of worker connections share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.clock import FakeClock
from tests.upstream.http2_stage import SharedLine
from tests.upstream.stage import FakeLoop, Line


@pytest.fixture
def loop() -> Iterator[FakeLoop]:
    made = FakeLoop()
    yield made
    made.close()


@pytest.fixture
def line(loop: FakeLoop) -> Line:
    return Line(loop)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    rooms = ("core.clock", "upstream.http1", "upstream.http2", "upstream.pool")
    made.stand_in(monkeypatch, *(f"smgproxy.{room}" for room in rooms))
    return made


@pytest.fixture
def shared(loop: FakeLoop, clock: FakeClock) -> Iterator[SharedLine]:
    made = SharedLine(loop)
    yield made
    made.pool.cut_all()
    made.transport.turn()
