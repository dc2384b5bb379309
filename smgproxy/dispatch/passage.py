"""A form that is read while it comes in, and goes on to its worker meanwhile if it may.

What is read goes to a spool at first. Once more than a read of its file has come, and
everything that its worker is chosen by, the spool gives way to a `Passage`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from smgproxy.api.transcription import BadForm, TranscriptionForm
from smgproxy.core.errors import BodyTooLarge, GatewayError
from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import BACKLOG_BYTES, Hold, Sink, Source
from smgproxy.dispatch.spool import Spool, spool_failed
from smgproxy.wire.multipart import FormReader, MultipartError, boundary_of

# A file that is no longer is complete about as soon as a worker would be chosen.
KEPT_BYTES = BACKLOG_BYTES


class Passage(Source):
    """A form's file as it comes in, for a worker; what else the form holds follows it.

    A file like the spool it stands in for; what one read brings is delivered once.
    """

    __slots__ = ("size", "_sink_of_client", "_pieces")

    def __init__(self, client: FormSink, head: bytes, size: int) -> None:
        """``head``: what goes first, the ``size`` bytes of the file so far included."""
        super().__init__()
        self.size = size
        self._sink_of_client = client
        self._pieces: list[bytes] = []
        self.deliver(head)

    # -- the form's side -------------------------------------------------------------

    def clear(self) -> None:
        """A second file would replace the first, which has gone on. Raises BadForm."""
        raise BadForm("Form field 'file' came twice, the first too large to take back")

    def write(self, data: bytes) -> None:
        """The file goes on."""
        self.size += len(data)
        self._pieces.append(data)

    def flush(self) -> None:
        """Deliver what was written."""
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self.deliver(data)

    def fail(self, error: Exception) -> None:
        """No form will come of it: what waits is not sent any more."""
        if self.is_ended:
            return
        self._backlog = None
        self._backlog_bytes = 0
        self._holds &= ~Hold.SINK_FULL
        super().fail(error)

    # -- the worker's side -----------------------------------------------------------

    def on_pause(self) -> None:
        """Source.on_pause"""
        self._sink_of_client.hold()

    def on_resume(self) -> None:
        """Source.on_resume"""
        self._sink_of_client.release()

    def on_abort(self, error: Exception) -> None:
        """The worker takes no more: neither is more needed of the client."""
        self._sink_of_client.give_up(error)


class FormSink(Sink):
    """Feeds a client's body to the reader of its form, for one coroutine."""

    __slots__ = (
        *("_form", "_spool", "_reader", "_limit", "_size", "_passage"),
        *("_tail", "_loop", "_waiter", "is_whole", "_is_deciding"),
    )

    def __init__(
        self,
        form: TranscriptionForm,
        spool: Spool,
        exchange: Exchange,
        limit_bytes: int,
        loop: asyncio.AbstractEventLoop,
        *,
        may_pass: bool = True,
    ) -> None:
        """``spool``: the form's file. ``may_pass``: false to have all of it there.

        Raises BadForm when the head names no form.
        """
        super().__init__()
        try:
            boundary = boundary_of(exchange.head.first.get(b"content-type"))
        except MultipartError as error:
            raise BadForm(str(error)) from None
        self._form = form
        self._spool = spool
        self._reader: FormReader | None = FormReader(boundary, form)
        self._limit = limit_bytes
        self._size = 0
        self._passage: Passage | None = None
        self._tail: Callable[[], bytes] = bytes
        self._loop = loop
        self._waiter: asyncio.Future[bool] = loop.create_future()
        self._is_deciding = may_pass
        self.is_whole = False  # the body has ended, and with it the form

    # -- the coroutine's side --------------------------------------------------------

    async def read(self, body: Source) -> bool:
        """Read until the form is whole, or false, until it might be passed on.

        In between the client is held. Raises GatewayError.
        """
        body.join(self)
        return await self._waiter

    async def read_on(self) -> None:
        """It is not passed on: read until it is whole. Raises GatewayError."""
        self._is_deciding = False
        self._waiter = self._loop.create_future()
        self.release()
        await self._waiter

    def pass_on(self, head: bytes, tail: Callable[[], bytes]) -> Passage:
        """What goes to the worker from now on: ``head``, the file, and ``tail()``.

        ``tail`` is asked once the form is whole, and may raise BadForm.
        """
        self._is_deciding = False
        self._tail = tail
        self._spool.rewind()
        # Its first bytes hold the client until the worker takes them.
        passage = Passage(self, head + self._spool.read(), self._spool.size)
        self._passage = self._form.file = passage
        return passage

    def stop(self) -> None:
        """Nobody wants it any more: the answer may be on its way."""
        self._reader = None
        self._passage = None  # which holds this

    # -- the body's side -------------------------------------------------------------

    def write(self, data: bytes, end: bool = False) -> None:
        """Read on, or give up at the limit or the first fault."""
        if self._reader is None:
            return
        self._size += len(data)
        try:
            if self._size > self._limit:
                raise BodyTooLarge()
            self._reader.feed(data)
            if end:
                self._reader.finish()
                self.is_whole = True
            self._have_passed(end)
        except MultipartError as error:
            self._fail(BadForm(str(error)))
        except OSError as error:
            self._fail(spool_failed(error))
        except GatewayError as error:
            self._fail(error)

    def abort(self, error: Exception) -> None:
        """The body will not come: tell the one who waits."""
        if self._passage is not None:
            self._passage.fail(error)
        elif not self._waiter.done():
            self._waiter.set_exception(error)

    # -- the passage's side ----------------------------------------------------------

    def hold(self) -> None:
        """Let no more come."""
        if self.source is not None:
            self.source.hold(Hold.SINK_FULL)

    def release(self) -> None:
        """Let more come."""
        if self.source is not None:
            self.source.release(Hold.SINK_FULL)

    def give_up(self, error: Exception) -> None:
        """Have the client stop."""
        self.stop()
        if self.source is not None:
            self.source.abort(error)

    # -- inside ----------------------------------------------------------------------

    def _have_passed(self, end: bool) -> None:
        """Pass on what was read; where nothing is, wake the coroutine in due time."""
        passage = self._passage
        if passage is not None:
            passage.flush()
            if end:
                passage.deliver(self._tail(), True)
        elif end:
            if not self._waiter.done():
                self._waiter.set_result(True)
        elif self._is_deciding and self._is_ready and not self._waiter.done():
            self.hold()
            self._waiter.set_result(False)

    @property
    def _is_ready(self) -> bool:
        """Whether a worker could be chosen, with most of the file likely to come."""
        spool = self._spool
        return spool.size > KEPT_BYTES and spool.is_small and self._form.is_at_file

    def _fail(self, error: Exception) -> None:
        self.abort(error)
        self.give_up(error)
