"""Transcriptions: a form is read to its end, held to the contract, and made anew.

Its model may stand behind its file, and every fault of it is told before a worker is
chosen; so the file is spooled, and goes on when the form is complete.
"""

from __future__ import annotations

import asyncio
import secrets

from smgproxy.admission.budgets import Budgets
from smgproxy.api.bodies import BodyReader
from smgproxy.api.endpoints import AnyEndpoint
from smgproxy.api.transcription import BadForm, TranscriptionForm
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import BodyTooLarge, GatewayError, UpstreamError
from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Sink
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.charge import reserve_text
from smgproxy.dispatch.fallback import Fallback, Fallbacks
from smgproxy.dispatch.headers import headers_to_worker
from smgproxy.dispatch.once import Once
from smgproxy.dispatch.ranks import RanksNotSupported
from smgproxy.dispatch.spool import Spool, SpoolSource, spool_failed
from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.leg import Leg
from smgproxy.upstream.pool import Upstream
from smgproxy.wire.multipart import FormReader, MultipartError, boundary_of


class Transcriptions:
    """Carries forms with audio to HTTP workers, once each."""

    __slots__ = ("_reader", "_router", "_upstream", "_stats", "_budgets") + (
        *("_answers", "_once", "_limit", "_loop", "_fallbacks"),
    )

    def __init__(
        self,
        reader: BodyReader,
        router: Router,
        upstream: Upstream,
        stats: RouterStats,
        budgets: Budgets | None,
        answers: Answers,
        limit_bytes: int,
        loop: asyncio.AbstractEventLoop,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        self._reader = reader
        self._router = router
        self._upstream = upstream
        self._stats = stats
        self._budgets = budgets
        self._answers = answers
        self._once = Once(answers, stats)
        self._limit = limit_bytes
        self._loop = loop
        self._fallbacks = fallbacks

    async def forward(self, exchange: Exchange, endpoint: AnyEndpoint) -> None:
        """Read the form, pick a worker, relay its answer. Raises GatewayError."""
        spool = Spool()
        try:
            form = await self._read(exchange, spool)
            model = self._reader.canonical(form.model)
            if self._budgets is not None:
                reserve_text(self._budgets, exchange, model, form.prompt)
            routed = RoutingRequest(model, exchange.head.first, monotonic())
            fallback = None
            if self._fallbacks is not None:
                fallback = self._fallbacks.begin(exchange, model, routed)
            is_known = fallback is not None or self._router.is_served(model)
            label = self._stats.label(model, is_known)
            self._stats.count_request(label, endpoint.name, False)
            worker = self._pick(routed, endpoint, label, fallback)
            try:
                if worker.dp_rank is not None:
                    raise self._refusal(endpoint, label)
                if fallback is not None:
                    model = fallback.model
                parcel = _Parcel(exchange, endpoint, form, model, spool, worker)
                await self._send(parcel, label)
            finally:
                self._router.release(routed)
        finally:
            spool.close()

    async def _read(self, exchange: Exchange, spool: Spool) -> TranscriptionForm:
        """The whole form, and the rules on it held. Raises GatewayError."""
        form = TranscriptionForm(spool)
        try:
            boundary = boundary_of(exchange.head.first.get(b"content-type"))
        except MultipartError as error:
            raise BadForm(str(error)) from None
        waiter: asyncio.Future[None] = self._loop.create_future()
        sink = FormSink(FormReader(boundary, form), self._limit, waiter)
        try:
            exchange.request.join(sink)
            await waiter
        finally:
            sink.stop()
        form.check()
        return form

    def _pick(
        self,
        routed: RoutingRequest,
        endpoint: AnyEndpoint,
        label: str,
        fallback: Fallback | None,
    ) -> Worker:
        try:
            if fallback is not None:
                return fallback.pick()
            return self._router.pick(routed)
        except GatewayError as error:
            self._stats.count_upstream(error.status, str(error.code))
            self._answers.note_error(error, label, endpoint)
            raise

    def _refusal(self, endpoint: AnyEndpoint, label: str) -> GatewayError:
        """No form tells an engine which of its ranks it is for (contract)."""
        error = RanksNotSupported(endpoint.path)
        self._stats.count_upstream(error.status, str(error.code))
        self._answers.note_error(error, label, endpoint)
        return error

    async def _send(self, parcel: _Parcel, label: str) -> None:
        """A small form as one request, a large one from its file."""
        worker = parcel.worker
        timeout_secs = worker.http_pool.timeout_secs
        source: SpoolSource | None = None

        async def send() -> tuple[Leg, ResponseHead]:
            nonlocal source
            if parcel.spool.is_small:
                request = parcel.request(parcel.whole())
                return await self._upstream.call(worker, request, timeout_secs)
            source = SpoolSource(self._loop, parcel.spool, parcel.head, parcel.tail)
            request, size = parcel.request(), parcel.size
            return await self._upstream.upload(
                worker, request, source, size, timeout_secs
            )

        try:
            await self._once.attempt(
                parcel.exchange, parcel.endpoint, worker, label, send
            )
        finally:
            if source is not None:
                source.abort(UpstreamError("the exchange is over"))


class _Parcel:
    """A form as its worker gets it."""

    __slots__ = ("exchange", "endpoint", "spool", "worker", "head", "tail", "_boundary")

    def __init__(
        self,
        exchange: Exchange,
        endpoint: AnyEndpoint,
        form: TranscriptionForm,
        model: str,
        spool: Spool,
        worker: Worker,
    ) -> None:
        self.exchange = exchange
        self.endpoint = endpoint
        self.spool = spool
        self.worker = worker
        # Nobody can have put into the file what nobody can guess.
        self._boundary = b"smgproxy-" + secrets.token_hex(16).encode()
        self.head, self.tail = form.encoded(model, self._boundary)

    @property
    def size(self) -> int:
        """Its length in bytes; engines may refuse a form without one."""
        return len(self.head) + self.spool.size + len(self.tail)

    def whole(self) -> bytes:
        """All of it, when it is small."""
        self.spool.rewind()
        return self.head + self.spool.read() + self.tail

    def request(self, body: bytes = b"") -> WorkerRequest:
        """The request that carries it; ``body`` if it is not to follow."""
        exchange = self.exchange
        headers = headers_to_worker(
            exchange.head,
            exchange.id,
            self.worker,
            self.size,
            exchange.has_gateway_key,
            b"multipart/form-data; boundary=" + self._boundary,
        )
        return WorkerRequest(b"POST", self.endpoint.path.encode(), headers, body)


class FormSink(Sink):
    """Feeds a body to the reader of its form, for one waiting coroutine."""

    __slots__ = ("_reader", "_limit", "_size", "_waiter")

    def __init__(
        self, reader: FormReader, limit_bytes: int, waiter: asyncio.Future[None]
    ) -> None:
        super().__init__()
        self._reader: FormReader | None = reader
        self._limit = limit_bytes
        self._size = 0
        self._waiter = waiter

    def write(self, data: bytes, end: bool = False) -> None:
        """Read on, or give up at the limit or the first fault."""
        self._size += len(data)
        if self._reader is None:
            return
        try:
            if self._size > self._limit:
                raise BodyTooLarge()
            self._reader.feed(data)
            if end:
                self._reader.finish()
        except MultipartError as error:
            self._give_up(BadForm(str(error)))
        except OSError as error:
            self._give_up(spool_failed(error))
        except GatewayError as error:
            self._give_up(error)
        else:
            if end and not self._waiter.done():
                self._waiter.set_result(None)

    def abort(self, error: Exception) -> None:
        """The body will not come: tell the one who waits."""
        if not self._waiter.done():
            self._waiter.set_exception(error)

    def stop(self) -> None:
        """Nobody waits any more: an answer may be on its way while the body comes."""
        self._reader = None

    def _give_up(self, error: Exception) -> None:
        if self.source is not None:
            self.source.abort(error)
        self.abort(error)
