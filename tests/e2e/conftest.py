"""The gateway that all tests share which only talk to one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.process import RunningGateway
from tests.fakes.certificates import Authority, Pair

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


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA that the clients and gateways of the TLS tests believe."""
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA that nobody believes."""
    return Authority(tmp_path_factory.mktemp("tls") / "stranger")


@pytest.fixture(scope="session")
def server(authority: Authority) -> Pair:
    """What gateways show to their clients."""
    return authority.issue("server")


@pytest.fixture
def https(server: Pair) -> dict[str, Any]:
    """The flags of a gateway that speaks TLS."""
    return {"tls_cert_path": server.cert, "tls_key_path": server.key}
