import pytest
import ujson

from smgproxy.control.routes import probe_routes
from smgproxy.core.errors import MethodNotAllowed, UnknownUrl
from smgproxy.fleet.worker import WorkerState
from tests.control.stage import A, B, Stage, ask, at_once


@pytest.mark.parametrize("path", ["/health", "/liveness"])
def test_the_gateway_is_alive_without_workers_and_while_it_drains(path: str) -> None:
    it = Stage()
    it.is_draining = True
    reply = it.ask("GET", path)
    assert (reply.status, reply.body) == (200, b"OK")
    assert reply.content_type == b"text/plain; charset=utf-8"


def test_it_is_not_ready_without_a_ready_worker() -> None:
    it = Stage()
    expected = {"status": "not ready", "reason": "insufficient healthy workers"}
    reply = it.ask("GET", "/readiness")
    assert (reply.status, ujson.loads(reply.body)) == (503, expected)
    worker = it.add()
    it.registry.set_state(worker, WorkerState.FAILED)
    assert it.ask("GET", "/readiness").status == 503


def test_it_is_ready_with_one_ready_worker() -> None:
    it = Stage()
    it.add(A)
    it.registry.set_state(it.add(B), WorkerState.NOT_READY)
    reply = it.ask("GET", "/readiness")
    assert reply.status == 200
    assert reply.body == b'{"status":"ready","healthy_workers":1,"total_workers":2}'


def test_a_drain_is_the_reason_whatever_the_workers() -> None:
    it = Stage()
    it.add()
    it.is_draining = True
    reply = it.ask("GET", "/readiness")
    assert reply.status == 503
    assert reply.body == b'{"status":"not ready","reason":"draining"}'


def test_the_probe_port_has_the_three_probes_and_nothing_else() -> None:
    it = Stage()
    routes = probe_routes(it.registry, lambda: False)
    for path, status in (("/health", 200), ("/liveness", 200), ("/readiness", 503)):
        assert at_once(ask(routes, "GET", path, b"", None)).status == status
    with pytest.raises(UnknownUrl):
        at_once(ask(routes, "GET", "/workers", b"", None))
    with pytest.raises(MethodNotAllowed):
        at_once(ask(routes, "POST", "/health", b"", None))
