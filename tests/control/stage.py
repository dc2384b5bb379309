"""Control routes over a fleet without sockets, asked as a client would."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import ujson

from smgproxy.api.endpoints import (
    Carried,
    ControlRequest,
    Endpoint,
    FormEndpoint,
    Routes,
    action_of,
)
from smgproxy.api.replies import Reply
from smgproxy.control.routes import add_control_routes
from smgproxy.core.message import Headers, RequestHead
from smgproxy.fleet.fleet import Fleet
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import HttpPoolSettings, Worker
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngines, sglang

A, B = "http://a:1", "http://b:1"
JSON_TYPE = "application/json"
NOBODY = "0b1f9b9e-1111-4111-8111-111111111111"


def at_once(coroutine: Coroutine[Any, Any, Reply]) -> Reply:
    """The answer of a coroutine that has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        reply: Reply = done.value
        return reply
    raise AssertionError("the answer waits for something")


def ask(
    routes: Routes,
    method: str,
    target: str,
    body: bytes,
    kind: str | None,
    more: Headers | None = None,
) -> Coroutine[Any, Any, Reply]:
    """What answers a request, not begun."""
    path, _, query = target.partition("?")
    headers = [(b"content-type", kind.encode())] if kind else []
    headers += more or []
    head = RequestHead(method, path, query, headers, content_length=len(body))
    route, params = routes.match(path)
    action = action_of(route, head)
    assert not isinstance(action, (Endpoint, FormEndpoint, Carried))
    answer = action(ControlRequest(head, params, body, b"req-1"))
    assert isinstance(answer, Coroutine)
    return answer


class Stage:
    """The control routes, and the fleet, engines and clock behind them."""

    def __init__(
        self,
        options: FleetOptions = FleetOptions(),
        aliases: dict[str, str] | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.background = FakeBackground(self.clock)
        self.engines = FakeEngines()
        self.registry = Registry()
        self.is_draining = False
        self.fleet = Fleet(
            self.registry,
            options,
            self.engines.fetch,
            self.background.spawn,
            lambda worker: None,
            sleep=self.background.sleep,
            http_pool=HttpPoolSettings(),
        )
        self.routes = Routes()
        add_control_routes(
            *(self.routes, self.fleet, self.engines.fetch, lambda: self.is_draining),
            aliases or {},
        )

    def ask(
        self, method: str, target: str, value: Any = None, kind: str | None = JSON_TYPE
    ) -> Reply:
        """The answer to a request; a value goes along as JSON, bytes as they are."""
        body = value if isinstance(value, bytes) else b""
        if value is not None and not isinstance(value, bytes):
            body = ujson.dumps(value).encode()
        return at_once(ask(self.routes, method, target, body, kind))

    def json(self, method: str, target: str, value: Any = None) -> Any:
        """The answer's JSON."""
        return ujson.loads(self.ask(method, target, value).body)

    def add(self, url: str = A, table: Any = None, **spec: Any) -> Worker:
        """Register a worker by POST; its engine is SGLang unless a table is given."""
        self.engines.tables[url] = sglang() if table is None else table
        worker_id = self.json("POST", "/workers", {"url": url, **spec})["worker_id"]
        worker = self.registry.get(worker_id)
        assert worker is not None
        return worker
