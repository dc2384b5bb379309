"""prefix_hash: prompts that begin alike go to one worker, unless it is too busy."""

from __future__ import annotations

from bisect import bisect_right

from smgproxy.fleet.worker import Worker
from smgproxy.routing.hints import routing_key
from smgproxy.routing.policy import Draw, Policy, least_busy
from smgproxy.routing.request import TOKEN_BYTES, RoutingRequest
from smgproxy.routing.ring import Rings

# Characters that stand for a token of a prompt that is not tokenised.
TOKEN_CHARACTERS = 4


class PrefixHashPolicy(Policy):
    """Hashes a routing key, else the prompt's first tokens, else its first characters.

    ``boundaries`` are token positions in ascending order; with them the head that is
    hashed ends at the deepest one that the prompt reaches. The owner is passed over
    when its load is above ``load_factor`` times the mean and above the mean by
    ``abs_threshold``; the request that is placed counts in the mean.
    """

    __slots__ = ("_tokens", "_factor", "_margin", "_boundaries", "_rings")
    name = "prefix_hash"

    def __init__(
        self,
        token_count: int = 256,
        load_factor: float = 1.25,
        abs_threshold: int = 10,
        boundaries: tuple[int, ...] = (),
        draw: Draw | None = None,
    ) -> None:
        super().__init__(draw)
        self._tokens = token_count
        self._factor = load_factor
        self._margin = abs_threshold
        self._boundaries = boundaries
        self._rings = Rings()

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The owner of the prompt's head, or a less busy worker."""
        if not candidates:
            self._count("no_healthy_workers")
            return None
        prompt, lengths = self._prompt(request)
        if not lengths:
            self._count("no_routing_key")
            return least_busy(candidates, self._draw)
        ring = self._rings.of(candidates)
        owner = ring.owner(_head(prompt, lengths[-1]))
        average = (sum([one.load for one in candidates]) + 1) / len(candidates)
        limit = max(self._factor * average, average + self._margin)
        if owner.load <= limit:
            self._count("ring_hit")
            return owner
        self._count("load_balance_walk")
        for length in lengths[-2::-1]:
            shallower = ring.owner(_head(prompt, length))
            if shallower.load <= limit:
                return shallower
        fit = [one for one in candidates if one.load <= limit]
        return least_busy(fit, self._draw) if fit else owner

    def _prompt(self, request: RoutingRequest) -> tuple[str | bytes, tuple[int, ...]]:
        """What is hashed, and where its heads end; the deepest last, () for nothing."""
        key = routing_key(request.headers)
        if key is not None:
            return key, (len(key),)
        tokens = request.tokens
        if tokens:
            return tokens, self._ends(len(tokens), TOKEN_BYTES)
        text = request.text
        if text:
            return text, self._ends(len(text), TOKEN_CHARACTERS)
        return text, ()

    def _ends(self, length: int, per_token: int) -> tuple[int, ...]:
        boundaries = self._boundaries
        reached = bisect_right(boundaries, length // per_token) if boundaries else 0
        if not reached:
            return (self._tokens * per_token,)
        return tuple(per_token * place for place in boundaries[:reached])

    def forget(self, worker: Worker) -> None:
        """Drop the rings that the worker is on."""
        self._rings.forget(worker)


def _head(prompt: str | bytes, length: int) -> bytes:
    head = prompt[:length]
    return head if isinstance(head, bytes) else head.encode("utf-8", "surrogatepass")
