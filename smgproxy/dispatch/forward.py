"""HTTP workers: choose one, call it, relay what it answers."""

from __future__ import annotations

import asyncio
import random

from smgproxy.admission.budgets import Budgets
from smgproxy.api.bodies import BodyReader, Call
from smgproxy.api.endpoints import AnyEndpoint, Endpoint, FormEndpoint
from smgproxy.api.schema import SMALL_BODY_BYTES, is_light
from smgproxy.api.systemone import SystemOne
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import BodyTooLarge, GatewayError, UpstreamError
from smgproxy.core.exchange import Exchange, Phase
from smgproxy.core.flow import collect
from smgproxy.core.message import WorkerRequest
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.bodymode import STREAMABLE, BodyRules
from smgproxy.dispatch.charge import reserve
from smgproxy.dispatch.fallback import Fallback, Fallbacks
from smgproxy.dispatch.first_byte import FirstByteLimit
from smgproxy.dispatch.headers import headers_to_worker
from smgproxy.dispatch.options import DispatchOptions
from smgproxy.dispatch.ranks import rankless_steps, with_rank
from smgproxy.dispatch.retry import Attempts, RetryOptions
from smgproxy.dispatch.transcribe import Transcriptions
from smgproxy.dispatch.turns import LargeBodies, in_turns
from smgproxy.dispatch.upload import Uploads
from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.calls import Upstream
from smgproxy.upstream.leg import Leg

# With retries off, a body of this size or more is sent once and not kept meanwhile.
ONE_SHOT_BYTES = 1024 * 1024
# Pauses need no secret: seeded once, its own.
_draw = random.Random().random


class Forwarder:
    """Carries inference requests to HTTP workers."""

    __slots__ = (
        *("_reader", "_router", "_caller", "_options", "_retries", "_stats"),
        *("_budgets", "_uploads", "_transcriptions", "answers"),
        *("large_bodies", "_fallbacks"),
    )

    def __init__(
        self,
        reader: BodyReader,
        router: Router,
        upstream: Upstream,
        options: DispatchOptions,
        retries: RetryOptions,
        stats: RouterStats,
        loop: asyncio.AbstractEventLoop,
        budgets: Budgets | None = None,
        has_key_override: bool = False,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        """``budgets``: None when tenants have none; ``fallbacks``: if no model has."""
        self._budgets = budgets
        self._reader = reader
        self._router = router
        first_byte_secs = options.first_byte_timeout_secs
        self._caller = (
            FirstByteLimit(upstream, first_byte_secs) if first_byte_secs else upstream
        )
        self._options = options
        self._fallbacks = fallbacks
        self._retries = retries
        self._stats = stats
        self.large_bodies = LargeBodies()
        self.answers = Answers(options, stats, loop)
        rules = BodyRules(
            has_key_override=has_key_override,
            has_fallbacks=fallbacks is not None,
            retries_enabled=retries.is_enabled,
            max_buffered_bytes=options.max_buffered_request_bytes,
        )
        self._uploads = Uploads(router, upstream, rules, stats, budgets, self.answers)
        self._transcriptions = Transcriptions(
            *(reader, router, upstream, stats, budgets, self.answers),
            options,
            loop,
            fallbacks,
        )

    async def forward(self, exchange: Exchange, endpoint: AnyEndpoint) -> None:
        """Read the body, pick a worker, relay its answer. Raises GatewayError.

        One coroutine for the whole usual story: each more of them costs every request.
        """
        if isinstance(endpoint, FormEndpoint):
            await self._transcriptions.forward(exchange, endpoint)
            return
        if endpoint.name in STREAMABLE:
            upload = self._uploads.pick(exchange.head)
            if upload is not None:
                await self._uploads.forward(exchange, endpoint, upload)
                return
        limit = self._options.max_payload_size
        body = exchange.request.take_all()
        if body is None:
            self._reader.check_type(exchange.head)  # before it is sent, if it waits
            body = await collect(exchange.request, limit, BodyTooLarge)
        elif len(body) > limit:
            raise BodyTooLarge()  # a chunked one, whose head could not tell
        if len(body) <= SMALL_BODY_BYTES or is_light(body):
            call = self._reader.read(exchange.head, endpoint, body)
        else:
            steps = self._reader.steps(exchange.head, endpoint, body)
            call = await self.large_bodies.read(steps)
        if self._budgets is not None:
            reserve(self._budgets, exchange, call)
        del body  # so that the call alone holds it
        is_stream = call.is_stream and endpoint.may_stream
        began = monotonic()
        answers, router = self.answers, self._router
        routed = RoutingRequest(call.model, exchange.head.first, began, call)
        fallback = None
        if self._fallbacks is not None:
            fallback = self._fallbacks.begin(exchange, call.model, routed)
        model = self._count_request(call, endpoint, is_stream, fallback is not None)
        attempts = Attempts(self._retries)
        while True:
            worker: Worker | None = None
            leg: Leg | None = None
            whole: bytes | None = None
            try:
                if fallback is None:
                    worker = exchange.worker = router.pick(routed)
                else:
                    worker = exchange.worker = fallback.pick(attempts)
                    await fallback.rename(call)
                if worker.dp_rank is not None:
                    call.body = await in_turns(rankless_steps(call.body))
                told = _translated(endpoint, call, worker)
                attempts.made += 1
                leg, reply = await self._caller.call(
                    worker,
                    self._request(exchange, endpoint, call, worker, told),
                    worker.http_pool.timeout_secs,
                    is_one_shot=len(call.body) >= ONE_SHOT_BYTES
                    and self._releases(call, endpoint),
                )
                if told is not None:
                    reply, whole = await answers.translate(worker, leg, reply, told)
                answers.note_answer(worker, reply.status, attempts)
                if reply.status < 400 or not attempts.retries_answer(
                    worker, reply.status, self._has_other, fallback or routed
                ):
                    if is_stream:
                        await answers.relay(
                            exchange, endpoint, worker, leg, reply, call.is_resliced
                        )
                    else:
                        if whole is None:
                            whole = leg.take_all()
                        if whole is None:
                            whole = await answers.collect_reply(worker, leg)
                        answers.answer_whole(exchange, worker, reply, whole)
                    break
            except GatewayError as error:
                if leg is None:  # one count an attempt: an answer has its own
                    self._stats.upstream[error.status, str(error.code)] += 1
                if worker is not None:
                    answers.note_failure(worker, error, attempts)
                if exchange.phase >= Phase.COMMITTED or not attempts.retries_error(
                    error, worker, self._has_other, fallback or routed
                ):
                    answers.note_error(error, model, endpoint)
                    self._note_exhausted(attempts, endpoint)
                    raise
            finally:
                if worker is not None:
                    router.release(routed)
                if leg is not None and not leg.is_ended:
                    leg.abort(UpstreamError("the exchange is over"))
            await self._pause(attempts, endpoint, routed)
        if attempts.is_exhausted:
            self._note_exhausted(attempts, endpoint)
        answers.note_end(reply.status, model, endpoint, monotonic() - began)

    def _has_other(self, routed: RoutingRequest | Fallback, attempts: Attempts) -> bool:
        """Whether the next attempt could go elsewhere."""
        if isinstance(routed, Fallback):
            return routed.has_other(attempts)
        routed.excluded = attempts.excluded
        return self._router.has_other(routed)

    async def _pause(
        self, attempts: Attempts, endpoint: Endpoint, routed: RoutingRequest
    ) -> None:
        """Wait before the next attempt; its worker is picked by what is then known."""
        secs = attempts.backoff_secs(_draw())
        self._stats.count_retry(endpoint.name, attempts.made, secs)
        await asyncio.sleep(secs)
        routed.now = monotonic()
        routed.excluded = attempts.excluded

    def _note_exhausted(self, attempts: Attempts, endpoint: Endpoint) -> None:
        if attempts.is_exhausted:
            self._stats.count_exhausted(endpoint.name)

    def _count_request(
        self, call: Call, endpoint: Endpoint, is_stream: bool, is_named: bool
    ) -> str:
        """Count a request that is to be routed; the label of its model.

        ``is_named``: a flag names the model, so it has its label served or not.
        """
        stats, model = self._stats, call.model
        if model is None or model not in stats.labels:
            model = stats.label(model, is_named or self._router.is_served(model))
        stats.requests[model, endpoint.name, is_stream] += 1
        return model

    def _request(
        self,
        exchange: Exchange,
        endpoint: Endpoint,
        call: Call,
        worker: Worker,
        told: SystemOne | None,
    ) -> WorkerRequest:
        worker.count_request(call.model)
        path, body = endpoint.path_at_worker().encode(), call.body
        if told is not None:
            path, body = told.path, told.body
        if worker.dp_rank is not None:
            body = with_rank(body, worker.dp_rank)
        headers = headers_to_worker(
            exchange.head, exchange.id, worker, len(body), exchange.has_gateway_key
        )
        return WorkerRequest(b"POST", path, headers, body, call.model or "unknown")

    def _releases(self, call: Call, endpoint: Endpoint) -> bool:
        """Whether a large body is let go with its send: if there are no retries.

        What was read of a large one goes as soon as a worker is picked: its texts are
        a second copy of most of it, and views keep the first.
        """
        size = len(call.body)
        if endpoint.translate is None:
            call.request = None
        if self._retries.is_enabled:
            return False
        call.body = b""
        call.request = None
        self._stats.released_early_bytes += size
        return True


def _translated(endpoint: Endpoint, call: Call, worker: Worker) -> SystemOne | None:
    """What the worker is asked in place of the call's body, if its engine needs it."""
    if endpoint.translate is None:
        return None
    return endpoint.translate(worker.runtime_type, call.request, call.body)
