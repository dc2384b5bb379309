"""Several gateways on one port: the kernel spreads connections over them."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import SIMULATED
from tests.e2e.process import HOST, RunningGateway, eventually, free_ports
from tests.e2e.test_process import total


def served(running: RunningGateway) -> float:
    """The requests for models that this very process has answered."""
    return total(running, "smg_http_requests", path="/v1/models")


def test_two_gateways_share_a_port_and_one_can_leave(tmp_path: Path) -> None:
    [port] = free_ports(1)
    flags = (*SIMULATED, "--reuse-port", "--port", str(port))
    models = f"http://{HOST}:{port}/v1/models"
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with (
        RunningGateway(tmp_path / "one", *flags) as one,
        RunningGateway(tmp_path / "other", *flags) as other,
    ):
        gateways = (one, other)
        eventually(lambda: all(f":{port}" in each.out for each in gateways), 30)
        eventually(
            lambda: all(total(each, "smg_worker_health") == 2 for each in gateways), 30
        )

        def both_served() -> bool:
            assert one.ask("GET", models).status_code == 200
            return all(map(served, gateways))

        eventually(both_served)
        assert one.stop() == 0
        before = served(other)
        for _ in range(10):
            assert other.ask("GET", models).status_code == 200
        assert served(other) == before + 10
        assert other.stop() == 0


def test_without_the_flag_a_port_is_for_one_alone(tmp_path: Path) -> None:
    [port] = free_ports(1)
    flags = ("--port", str(port))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with RunningGateway(tmp_path / "one", *flags) as one:
        one.wait_until(f"http://{HOST}:{port}/liveness")
        with RunningGateway(tmp_path / "other", *flags, "--reuse-port") as other:
            assert other.wait() == 1
            assert f"cannot listen on {HOST}:{port}" in other.err
