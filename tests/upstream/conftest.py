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
    rooms = ("http1", "http2", "pool", "calls")
    modules = [f"smgproxy.upstream.{room}" for room in rooms]
    made.stand_in(monkeypatch, "smgproxy.core.clock", *modules)
    return made


@pytest.fixture
def shared(loop: FakeLoop, clock: FakeClock) -> Iterator[SharedLine]:
    made = SharedLine(loop)
    yield made
    made.pool.cut_all()
    made.transport.turn()
