"""One request and its one response, from the head's arrival to the last byte."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

from smgproxy.core.flow import Sink, Source
from smgproxy.core.message import RequestHead


class Phase:
    """How far an exchange has come; only ever grows.

    Before COMMITTED an error envelope is possible. After it: only go on, or abort.
    """

    OPENED = 0
    QUEUED = 1
    ADMITTED = 2
    COMMITTED = 3  # the response head is leaving
    DONE = 4  # the last byte was handed to the transport, or the client is gone


class Verdict(Enum):
    """Why an exchange was ended from outside."""

    CLIENT_GONE = "client_gone"
    DRAINED = "drained"
    PREEMPTED = "preempted"  # its slot went to a request of a higher class


class Exchange:
    """One request and its one response.

    Who writes what: the downstream room ``head``, ``request``, ``response``, ``peer``
    and ``opened_at``; its response sink ``status`` and ``committed_at``;
    dispatch/serve.py ``task``, ``id``, ``path``, ``tenant`` and ``has_gateway_key``;
    dispatch/admit.py ``ticket``; dispatch/charge.py ``reservation``;
    dispatch/forward.py ``worker`` and ``done``; dispatch/fallback.py ``served_model``;
    whoever answers with an error ``error_code``; dispatch/account.py ``counted`` and
    ``span``; ``verdict`` only the methods here, and ``phase`` too, but that
    dispatch/admit.py tells QUEUED and ADMITTED.
    """

    __slots__ = (
        "id",
        "head",
        "path",
        "request",
        "response",
        "peer",
        "tenant",
        "has_gateway_key",
        "ticket",
        "reservation",
        "worker",
        "served_model",
        "phase",
        "verdict",
        "task",
        "done",
        "opened_at",
        "committed_at",
        "status",
        "error_code",
        "counted",
        "span",
    )

    def __init__(
        self,
        head: RequestHead,
        request: Source,
        response: Sink,
        peer: str,
        opened_at: float,
    ) -> None:
        self.id = b""
        self.head = head
        self.path = "other"  # the route's template, the label metrics know it by
        self.request = request
        self.response = response
        self.peer = peer
        self.tenant = ""  # its tenant key; "" where nobody needs to know it
        # Whether its Authorization holds a key of this gateway (ruling 23).
        self.has_gateway_key = False
        # Its place in a queue, then its permit; given up by dispatch/serve.py.
        self.ticket: Any = None
        # What its tenant was charged for it; closed by dispatch/serve.py at the latest.
        self.reservation: Any = None
        self.worker: Any = None
        # The name of the model that serves, when it stands in for the one asked for.
        self.served_model: bytes | None = None
        self.phase = Phase.OPENED
        self.verdict: Verdict | None = None
        self.task: asyncio.Task[None] | None = None
        # Waited on while a stream runs; failed by whoever breaks it.
        self.done: asyncio.Future[None] | None = None
        self.opened_at = opened_at
        self.committed_at = 0.0
        self.status = 0
        self.error_code = ""
        self.counted: Any = None  # the counters of its path
        self.span = ""  # the log's words for it

    def commit(self) -> None:
        """The response begins: from here on no other answer is possible."""
        assert self.phase != Phase.COMMITTED
        if self.ticket is not None:
            self.ticket.commit()
        self.phase = Phase.COMMITTED

    def complete(self) -> None:
        """The response's last byte was handed on."""
        self.phase = Phase.DONE
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    def cancel(self, verdict: Verdict) -> None:
        """End the exchange from outside, wherever it is; the first verdict counts.

        Except that nobody is answered who leaves before the answer is written.
        """
        if self.phase == Phase.DONE:
            return
        is_first = self.verdict is None
        if verdict is Verdict.CLIENT_GONE:
            self.phase = Phase.DONE
        elif not is_first:
            return
        self.verdict = verdict
        if is_first and self.task is not None:
            self.task.cancel()
