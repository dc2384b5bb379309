"""Transcriptions: a form is read, held to the contract, and made anew for its worker.

A file that comes behind the model goes on while it comes in (`passage.py`). Any other
is spooled until the form is whole, as its model may stand behind it.
"""

from __future__ import annotations

import asyncio
import secrets

from smgproxy.admission.budgets import Budgets
from smgproxy.api.bodies import BodyReader
from smgproxy.api.endpoints import AnyEndpoint
from smgproxy.api.transcription import BadForm, TranscriptionForm
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import GatewayError, UpstreamError
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.charge import reserve_text
from smgproxy.dispatch.fallback import Fallback, Fallbacks
from smgproxy.dispatch.headers import headers_to_worker
from smgproxy.dispatch.once import Once, Send
from smgproxy.dispatch.options import DispatchOptions
from smgproxy.dispatch.passage import FormSink, Passage
from smgproxy.dispatch.ranks import RanksNotSupported
from smgproxy.dispatch.spool import Spool, SpoolSource
from smgproxy.dispatch.upload import note_departure
from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.calls import Upstream
from smgproxy.upstream.leg import Leg


class Transcriptions:
    """Carries forms with audio to HTTP workers, once each."""

    __slots__ = (
        *("_reader", "_router", "_upstream", "_stats", "_budgets"),
        *("_answers", "_once", "_limit", "_may_pass", "_loop", "_fallbacks"),
    )

    def __init__(
        self,
        reader: BodyReader,
        router: Router,
        upstream: Upstream,
        stats: RouterStats,
        budgets: Budgets | None,
        answers: Answers,
        options: DispatchOptions,
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
        self._limit = options.max_payload_size
        self._may_pass = not options.spool_transcriptions
        self._loop = loop
        self._fallbacks = fallbacks

    async def forward(self, exchange: Exchange, endpoint: AnyEndpoint) -> None:
        """Read the form, pick a worker, relay its answer. Raises GatewayError."""
        spool = Spool()
        form = TranscriptionForm(spool)
        try:
            sink = FormSink(
                *(form, spool, exchange, self._limit, self._loop),
                may_pass=self._may_pass,
            )
            try:
                if not await sink.read(exchange.request):
                    parcel = self._parcel(exchange, endpoint, form)
                    if self._has_any(parcel):
                        self._pick(parcel, is_whole=False)
                        await self._pass_on(parcel, sink)
                        return
                    # There is nobody, but a fault of the form's comes first.
                    await sink.read_on()
            finally:
                sink.stop()
            form.check()
            parcel = self._parcel(exchange, endpoint, form)
            self._pick(parcel, is_whole=True)
            await self._send_spooled(parcel, spool)
        finally:
            spool.close()

    def _parcel(
        self, exchange: Exchange, endpoint: AnyEndpoint, form: TranscriptionForm
    ) -> _Parcel:
        """Charge its tenant, once. Raises TenantRateLimited."""
        model = self._reader.canonical(form.model)
        if self._budgets is not None and exchange.reservation is None:
            reserve_text(self._budgets, exchange, model, form.prompt)
        parcel = _Parcel(exchange, endpoint, form, model)
        if self._fallbacks is not None:
            parcel.fallback = self._fallbacks.begin(exchange, model, parcel.routed)
        return parcel

    def _has_any(self, parcel: _Parcel) -> bool:
        """Whether a worker could be picked."""
        if parcel.fallback is not None:
            return parcel.fallback.has_other()
        return self._router.has_other(parcel.routed)

    def _pick(self, parcel: _Parcel, *, is_whole: bool) -> None:
        """Pick a worker, and count the request, if the form is whole or there is none.

        Raises GatewayError.
        """
        stats, endpoint = self._stats, parcel.endpoint
        asked, fallback = parcel.asked, parcel.fallback
        is_known = fallback is not None or self._router.is_served(asked)
        parcel.label = stats.label(asked, is_known)
        if is_whole:
            self._count(parcel)
        try:
            if fallback is not None:
                fallback.pick()
            else:
                self._router.pick(parcel.routed)
            if parcel.worker.dp_rank is not None:
                # No form tells an engine which of its ranks it is for (contract).
                self._router.release(parcel.routed)
                raise RanksNotSupported(endpoint.path)
        except GatewayError as error:
            self._count(parcel)
            stats.upstream[error.status, str(error.code)] += 1
            self._answers.note_error(error, parcel.label, endpoint)
            raise

    def _count(self, parcel: _Parcel) -> None:
        """Count the request once, when it is known or past knowing if it streams."""
        if not parcel.is_counted:
            parcel.is_counted = True
            is_stream = parcel.form.is_stream
            self._stats.requests[parcel.label, parcel.endpoint.name, is_stream] += 1

    async def _pass_on(self, parcel: _Parcel, sink: FormSink) -> None:
        """What has come so far, and the rest as it comes in."""
        exchange, worker = parcel.exchange, parcel.worker
        passage = sink.pass_on(parcel.head(), lambda: self._tail(parcel))

        async def send() -> tuple[Leg, ResponseHead]:
            try:
                answer = await self._upstream.upload(
                    *(worker, parcel.request(None), passage, passage.size),
                    worker.http_pool.timeout_secs,
                )
            except asyncio.CancelledError:
                if exchange.verdict is Verdict.CLIENT_GONE and not sink.is_whole:
                    note_departure(exchange, self._stats)
                raise
            # Answered: the rest of the form, and when it comes, is the client's affair.
            exchange.request.is_optional = True
            return answer

        try:
            await self._send(parcel, send, passage)
        finally:
            self._count(parcel)  # its rest never came, or was amiss

    def _tail(self, parcel: _Parcel) -> bytes:
        """What follows a file that was passed on; the form is whole. Raises BadForm."""
        form = parcel.form
        form.check()
        if self._reader.canonical(form.model) != parcel.asked:
            raise BadForm("Form field 'model' came twice, and another behind the file")
        self._count(parcel)
        return parcel.tail()

    async def _send_spooled(self, parcel: _Parcel, spool: Spool) -> None:
        """A small form as one request, a large one from its file."""
        worker, head, tail = parcel.worker, parcel.head(), parcel.tail()
        timeout_secs = worker.http_pool.timeout_secs
        # Engines may refuse a form without a length.
        size = len(head) + spool.size + len(tail)
        request = parcel.request(size)
        source: SpoolSource | None = None
        if spool.is_small:
            spool.rewind()
            request.body = head + spool.read() + tail
        else:
            source = SpoolSource(self._loop, spool, head, tail)

        async def send() -> tuple[Leg, ResponseHead]:
            if source is None:
                return await self._upstream.call(worker, request, timeout_secs)
            return await self._upstream.upload(
                worker, request, source, size, timeout_secs
            )

        await self._send(parcel, send, source)

    async def _send(
        self, parcel: _Parcel, send: Send, source: Passage | SpoolSource | None
    ) -> None:
        try:
            await self._once.attempt(
                parcel.exchange, parcel.endpoint, parcel.worker, parcel.label, send
            )
        finally:
            if source is not None:
                source.abort(UpstreamError("the exchange is over"))
            self._router.release(parcel.routed)


class _Parcel:
    """A form as its worker gets it; ``asked`` is the model it was sent for."""

    __slots__ = (
        *("exchange", "endpoint", "form", "asked", "routed", "fallback"),
        *("label", "is_counted", "_boundary"),
    )

    def __init__(
        self,
        exchange: Exchange,
        endpoint: AnyEndpoint,
        form: TranscriptionForm,
        asked: str,
    ) -> None:
        self.exchange = exchange
        self.endpoint = endpoint
        self.form = form
        self.asked = asked
        self.routed = RoutingRequest(asked, exchange.head.first, monotonic())
        self.fallback: Fallback | None = None
        self.label = ""  # of the model it was sent for, behind a pick
        self.is_counted = False
        # Nobody can have put into the file what nobody can guess.
        self._boundary = b"smgproxy-" + secrets.token_hex(16).encode()

    @property
    def worker(self) -> Worker:
        """Who was picked for it."""
        assert self.routed.worker is not None
        return self.routed.worker

    @property
    def _served(self) -> str:
        return self.asked if self.fallback is None else self.fallback.model

    def head(self) -> bytes:
        """What stands before the file."""
        return self.form.head(self._boundary)

    def tail(self) -> bytes:
        """What stands behind it."""
        return self.form.tail(self._served, self._boundary)

    def request(self, size: int | None) -> WorkerRequest:
        """The request that carries it; in the chunked coding without a ``size``."""
        exchange = self.exchange
        headers = headers_to_worker(
            exchange.head,
            exchange.id,
            self.worker,
            size,
            exchange.has_gateway_key,
            b"multipart/form-data; boundary=" + self._boundary,
        )
        path = self.endpoint.path.encode()
        return WorkerRequest(b"POST", path, headers, model=self._served)
