"""The realtime routes that are ordinary requests: read the model, ask one worker.

No second attempt, and no second send: each of them makes something at the worker
(contract, realtime 5).
"""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.admission.budgets import Budgets
from smgproxy.api.endpoints import Carried
from smgproxy.api.realtime import (
    CALLS,
    CLIENT_SECRETS,
    SESSIONS,
    TRANSCRIPTION_SESSIONS,
    model_of_body,
    renamed,
    target,
)
from smgproxy.api.realtime_calls import call_renamed, location_here, model_of_call
from smgproxy.api.schema import is_light
from smgproxy.api.steps import Steps, at_once
from smgproxy.core.errors import BodyTooLarge
from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import collect
from smgproxy.core.message import Headers, RequestHead, WorkerRequest
from smgproxy.dispatch.charge import reserve_unread
from smgproxy.dispatch.headers import headers_to_worker
from smgproxy.dispatch.realtime_attempt import Picks
from smgproxy.dispatch.turns import LargeBodies
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.calls import Upstream

# Every such route, and its metrics label.
NAMES = {
    CALLS: "realtime_calls",
    SESSIONS: "realtime_sessions",
    CLIENT_SECRETS: "realtime_client_secrets",
    TRANSCRIPTION_SESSIONS: "realtime_transcription",
}


class RealtimeCall:
    """One of these routes."""

    __slots__ = (
        *("endpoint", "_canonical", "_picks", "_upstream"),
        *("_large_bodies", "_limit", "_budgets"),
    )

    def __init__(
        self,
        path: str,
        canonical: Callable[[str], str],
        picks: Picks,
        upstream: Upstream,
        large_bodies: LargeBodies,
        max_payload_bytes: int,
        budgets: Budgets | None = None,
    ) -> None:
        """``canonical``: what a name of a model stands for."""
        self.endpoint = Carried(path, NAMES[path], self.carry)
        self._canonical = canonical
        self._picks = picks
        self._upstream = upstream
        self._large_bodies = large_bodies
        self._limit = max_payload_bytes
        self._budgets = budgets

    async def carry(self, exchange: Exchange) -> None:
        """Forward the body. Raises GatewayError."""
        endpoint = self.endpoint
        body = await collect(exchange.request, self._limit, BodyTooLarge)
        steps = self._read(exchange.head, body)
        if is_light(body):
            model, path, body = at_once(steps)
        else:
            model, path, body = await self._large_bodies.read(steps)
        if self._budgets is not None:
            reserve_unread(self._budgets, exchange)
        attempt = self._picks.begin(exchange, endpoint, model, False)
        with attempt:
            worker, answers = attempt.worker, self._picks.answers
            headers = _headers(exchange, worker, len(body))
            leg, reply = await self._upstream.call(
                worker,
                WorkerRequest(b"POST", path, headers, body),
                worker.http_pool.timeout_secs,
                is_one_shot=True,
            )
            attempt.answered(leg, reply)
            whole = await answers.collect_reply(worker, leg)
            if endpoint.path == CALLS:
                reply.headers = [_relocated(*field) for field in reply.headers]
            answers.answer_whole(exchange, worker, reply, whole)

    def _read(self, head: RequestHead, body: bytes) -> Steps[tuple[str, bytes, bytes]]:
        """The model, and the target and body that its worker gets."""
        path = self.endpoint.path
        if path == CALLS:
            found = yield from model_of_call(head, body)
            model = self._canonical(found.name)
            if model != found.name:
                body = yield from call_renamed(body, found, model)
            return model, target(CALLS, model), body
        name, place = yield from model_of_body(path, head, body)
        model = self._canonical(name)
        if model != name:
            body = yield from renamed(body, place, model)
        return model, path.encode(), body


def _headers(exchange: Exchange, worker: Worker, body_bytes: int) -> Headers:
    """As on every route, but for the type: a form's boundary is in it."""
    headers = headers_to_worker(
        exchange.head, exchange.id, worker, body_bytes, exchange.has_gateway_key
    )
    headers[0] = (b"content-type", exchange.head.first[b"content-type"])
    return headers


def _relocated(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    return (name, location_here(value) if name == b"location" else value)
