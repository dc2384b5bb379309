"""What all connections of one simulated worker share."""

import time
from typing import Protocol
from uuid import uuid4

from smgproxy.simulated import engine
from smgproxy.simulated.batch import Batch, Clock, Outlet, Run
from smgproxy.simulated.options import SimulatedOptions
from smgproxy.simulated.routes import Generating, Scoring
from smgproxy.simulated.status import Status


class Client(Protocol):
    """What a worker wants of its connections."""

    def close_if_stale(self, now: float) -> None: ...

    def cut(self) -> None: ...


class Worker:
    """One engine's worth of state: its batch, what it tells, who is connected."""

    __slots__ = ("clock", "batch", "status", "connections", "model")

    def __init__(self, options: SimulatedOptions, clock: Clock) -> None:
        self.clock = clock
        self.batch = Batch(clock, options.ttft_ms, options.tokens_per_second)
        self.status = Status(options.model, self.batch, int(time.time()))
        self.connections: set[Client] = set()
        self.model = options.model

    def begin(
        self, route: Generating | Scoring, body: bytes | bytearray, outlet: Outlet
    ) -> Run:
        """Work out the whole answer to a body; the batch then paces it.

        Raises BadAsk for a body that an engine refuses.
        """
        ident = uuid4().hex[:24]
        if isinstance(route, Scoring):
            scored = route.answer(body, self.model, ident)
            return Run(outlet, scored.body, 0, scored.prompt_tokens)
        ask = route.read(body, self.model)
        said = None if ask.output is None else ask.output.tokens
        answer = engine.answer(ask.prompts, ask.choices, ask.limits, said)
        reply = route.reply(ask, answer, ident, int(time.time()))
        pieces = reply if ask.is_stream else reply.whole()
        return Run(
            outlet, pieces, answer.steps, answer.prompt_tokens, reply.content_type
        )
