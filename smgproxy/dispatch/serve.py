"""Serve one exchange from head to end: the one place that knows the order.

Size from the head, route, key, permit, body, call, answer; errors become answers here
and nowhere else, and whatever happens the exchange is accounted for exactly once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from smgproxy.admission.tenants import Callers
from smgproxy.api.cors import Cors
from smgproxy.api.endpoints import (
    Carried,
    ControlRequest,
    Endpoint,
    FormEndpoint,
    Route,
    Routes,
    action_of,
)
from smgproxy.api.realtime import PATH as REALTIME
from smgproxy.api.realtime import adopt_browser_key
from smgproxy.api.replies import Reply, error_reply
from smgproxy.core.errors import (
    BodyTooLarge,
    GatewayError,
    Preempted,
    ShuttingDown,
)
from smgproxy.core.exchange import Exchange, Phase, Verdict
from smgproxy.core.flow import collect
from smgproxy.dispatch.account import Account
from smgproxy.dispatch.admit import Gate
from smgproxy.dispatch.filters import ResponseHeaders
from smgproxy.dispatch.forward import Forwarder
from smgproxy.dispatch.identity import RequestIds
from smgproxy.dispatch.options import DispatchOptions

_log = logging.getLogger("smgproxy.serve")
# What waits its turn at the gate; all else is answered by a control route.
_GATED = (Endpoint, FormEndpoint, Carried)


class Dispatcher:
    """Gives every exchange its task, and knows which ones are running."""

    __slots__ = (
        "_cors",
        "_routes",
        "_forwarder",
        "_account",
        "_callers",
        "_ids",
        "_limit",
        "_loop",
        "gate",
        "running",
        "on_idle",
    )

    def __init__(
        self,
        routes: Routes,
        forwarder: Forwarder,
        account: Account,
        options: DispatchOptions,
        loop: asyncio.AbstractEventLoop,
        callers: Callers | None = None,
        cors: Cors | None = None,
    ) -> None:
        """``callers``: None when there is no key and nobody needs a tenant."""
        self._cors = cors
        self._routes = routes
        self._callers = callers
        self._forwarder = forwarder
        self._account = account
        self._ids = RequestIds(options.request_id_headers)
        self._limit = options.max_payload_size
        self._loop = loop
        # Set before the first exchange comes; None: everybody is admitted.
        self.gate: Gate | None = None
        self.running: set[Exchange] = set()
        # Called whenever the last running exchange has ended.
        self.on_idle: Callable[[], None] | None = None

    def on_exchange(self, exchange: Exchange) -> None:
        """A request's head came in."""
        exchange.task = self._loop.create_task(self._serve(exchange))

    def cancel_all(self, verdict: Verdict) -> None:
        """End every running exchange."""
        for exchange in list(self.running):
            exchange.cancel(verdict)

    async def _serve(self, exchange: Exchange) -> None:
        head = exchange.head
        exchange.id = self._ids.choose(head)
        route, params = self._routes.match(head.path)
        if route is not None:
            exchange.path = route.template
        self.running.add(exchange)
        self._account.opened(exchange)
        try:
            if self._cors is not None and self._is_preflight(exchange, self._cors):
                return
            if head.content_length is not None and head.content_length > self._limit:
                # Decided from the head, on every path, before 100 Continue.
                raise BodyTooLarge()
            action = action_of(route, head)
            if self._callers is not None:
                self._identify(self._callers, exchange, route)
            if isinstance(action, _GATED):
                gate = self.gate
                if gate is not None and (turn := gate.enter(exchange)) is not None:
                    gate.take_turn(exchange, await turn)
                if not isinstance(action, Carried):
                    await self._forwarder.forward(exchange, action)
                else:
                    await action.carry(exchange)
            else:
                body = await collect(exchange.request, self._limit, BodyTooLarge)
                request = ControlRequest(head, params, body, exchange.id)
                send_reply(exchange, await action(request))
        except GatewayError as error:
            self._answer_error(exchange, error)
        except asyncio.CancelledError:
            if exchange.verdict is None:
                raise
            if exchange.verdict is Verdict.DRAINED:
                self._answer_error(exchange, ShuttingDown())
            elif exchange.verdict is Verdict.PREEMPTED:
                self._answer_error(exchange, Preempted())
        except Exception:  # the last line of defence: a bug must not go unanswered
            _log.exception("request failed inside the gateway")
            self._answer_error(exchange, GatewayError("Internal error"))
        finally:
            self._let_go(exchange)

    def _let_go(self, exchange: Exchange) -> None:
        """Give back what the exchange holds, on every path, and write it down."""
        if exchange.ticket is not None and self.gate is not None:
            self.gate.leave(exchange)
        if exchange.reservation is not None:
            exchange.reservation.close()
        self._account.finished(exchange)
        exchange.task = None
        self.running.discard(exchange)
        if not self.running and self.on_idle is not None:
            self.on_idle()

    def _identify(
        self, callers: Callers, exchange: Exchange, route: Route | None
    ) -> None:
        """Note who calls, or refuse; before a byte of the body is asked for."""
        assert route is not None  # else action_of has raised
        if route.template == REALTIME:
            adopt_browser_key(exchange.head)
        caller = callers.identify(route.access, exchange.head, exchange.peer)
        exchange.tenant = caller.tenant
        exchange.has_gateway_key = caller.has_gateway_key

    def _is_preflight(self, exchange: Exchange, cors: Cors) -> bool:
        """Answer a browser's question; any other request gets its answer's fields."""
        origin = exchange.head.first.get(b"origin")
        if exchange.head.method == "OPTIONS":
            send_reply(exchange, cors.preflight(origin))
            return True
        exchange.response = ResponseHeaders(
            exchange.response, cors.headers(origin), cors.REPLACED
        )
        return False

    def _answer_error(self, exchange: Exchange, error: GatewayError) -> None:
        if exchange.phase == Phase.DONE:
            return
        if exchange.phase == Phase.COMMITTED:
            # A stream whose end forward.py has not written yet: nothing but a cut
            # tells its client that the body is not whole.
            exchange.done = None
            exchange.response.abort(error)
            return
        exchange.error_code = str(error.code)
        is_anthropic = exchange.path.startswith("/v1/messages")
        send_reply(exchange, error_reply(error, is_anthropic, exchange.id))


def send_reply(exchange: Exchange, reply: Reply) -> None:
    """Send an answer of the gateway's own, with its request id."""
    head = reply.head()
    if exchange.id:
        head.headers.append((b"x-request-id", exchange.id))
    exchange.commit()
    exchange.response.start(head)
    exchange.response.write(reply.body, True)


class SideDispatcher:
    """Serves the probe and metrics listeners: few routes, bare 404 and 405.

    Nothing of it is counted, logged or given an id, so that probes and scrapes leave
    no trace in what they look at.
    """

    __slots__ = ("_routes", "_loop", "_tasks")

    def __init__(self, routes: Routes, loop: asyncio.AbstractEventLoop) -> None:
        self._routes = routes
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def on_exchange(self, exchange: Exchange) -> None:
        """A request's head came in."""
        task = exchange.task = self._loop.create_task(self._serve(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, exchange: Exchange) -> None:
        try:
            route, params = self._routes.match(exchange.head.path)
            action = action_of(route, exchange.head)
            assert not isinstance(action, _GATED)
            reply = await action(ControlRequest(exchange.head, params, b"", b""))
        except GatewayError as error:
            reply = Reply(error.status, b"")
        except asyncio.CancelledError:
            if exchange.verdict is None:
                raise
            return
        send_reply(exchange, reply)
