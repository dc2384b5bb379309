"""The gateway that all tests share which only talk to one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.process import RunningGateway

SIMULATED = (
    *("--simulated-workers", "2", "--simulated-ttft-ms", "5"),
    *("--simulated-tokens-per-second", "500"),
)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """What ``make run`` starts, only faster; it must stop in good order."""
    folder = tmp_path_factory.mktemp("gateway")
    with RunningGateway(folder, *SIMULATED) as running:
        running.wait_until()
        yield running
        assert running.stop() == 0
