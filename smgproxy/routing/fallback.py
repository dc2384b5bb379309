"""--model-fallback: which models serve instead while nobody serves the one asked for.

Pure. A chain is asked from its beginning for every attempt, so that a request returns
to its own model as soon as that can serve; it is never followed from one chain into
another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple

from smgproxy.core.errors import (
    GatewayError,
    ModelNotFound,
    NoAvailableWorkers,
    OverloadShed,
)
from smgproxy.core.options import flag
from smgproxy.fleet.registry import UNKNOWN_MODEL
from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router

# Together they bound the series of the metric: 1,024 pairs of models.
MAX_CHAINS = 128
MAX_FALLBACKS = 8
MAX_NAME_CHARACTERS = 256
_FLAG = "--model-fallback"

# What ends the search at one model and begins it at the next.
NOBODY = (ModelNotFound, NoAvailableWorkers, OverloadShed)


class Chain(NamedTuple):
    """A model, and who serves in its place, in this order."""

    model: str
    fallbacks: tuple[str, ...]


def parse_chain(text: str) -> Chain:
    """One MODEL=FALLBACK,FALLBACK, checked by itself. Raises ValueError."""
    model, _, listed = text.partition("=")
    names = tuple(listed.split(","))
    if not model or not all(names):
        raise ValueError(
            "must be MODEL=FALLBACK,FALLBACK, such as llama-70b=llama-8b, with no "
            f"name left empty, not {_shown(text)}"
        )
    if len(names) > MAX_FALLBACKS:
        raise ValueError(
            f"{_shown(model)} has {len(names)} fallbacks, at most {MAX_FALLBACKS} may "
            "be given; leave the last ones out"
        )
    for place, name in enumerate(names):
        _check_name(name)
        if name == model:
            raise ValueError(f"{_shown(model)} falls back to itself; leave that out")
        if name in names[:place]:
            raise ValueError(f"{_shown(model)} names {_shown(name)} twice; once is all")
    if model == UNKNOWN_MODEL:
        raise ValueError("'unknown' stands for any model and needs no fallback")
    return Chain(model, names)


def _check_name(name: str) -> None:
    """A fallback's name goes into a header of the answer."""
    if name == UNKNOWN_MODEL:
        raise ValueError("'unknown' is no model; name one that workers serve")
    if not all("!" <= letter <= "~" for letter in name):
        raise ValueError(
            f"{_shown(name)} must be visible ASCII without blanks, as a header of the "
            "answer names it; give the model such a name at its workers"
        )
    if len(name) > MAX_NAME_CHARACTERS:
        raise ValueError(
            f"{_shown(name)}... is longer than {MAX_NAME_CHARACTERS} characters; give "
            "the model a shorter name at its workers"
        )


@dataclasses.dataclass(frozen=True)
class FallbackOptions:
    """Models that stand in for others."""

    model_fallbacks: tuple[Chain, ...] = flag(
        (),
        _FLAG,
        "Request Handling",
        "models that serve, in this order, while no worker of MODEL can; the answer's "
        "x-smg-served-model names the one that did; may be repeated",
        metavar="MODEL=FALLBACK,FALLBACK",
        is_list=True,
        parse=parse_chain,
    )

    def __post_init__(self) -> None:
        chains: dict[str, Chain] = {}
        for chain in self.model_fallbacks:
            if chains.setdefault(chain.model, chain) != chain:
                raise ValueError(
                    f"{_FLAG}: {_shown(chain.model)} has two chains; write one, with "
                    "all its fallbacks"
                )
        if len(chains) > MAX_CHAINS:
            raise ValueError(
                f"{_FLAG}: {len(chains)} models are given, at most {MAX_CHAINS} may "
                "be; leave some out"
            )

    def chains(self) -> dict[str, tuple[str, ...]]:
        """The fallbacks of each model that has some."""
        return {model: fallbacks for model, fallbacks in self.model_fallbacks}

    def check(self, aliases: Mapping[str, str]) -> None:
        """Refuse names that --model-alias resolves before. Raises ValueError."""
        for model, fallbacks in self.model_fallbacks:
            for name in (model, *fallbacks):
                if name in aliases:
                    raise ValueError(
                        f"{_FLAG}: {_shown(name)} is a --model-alias; name the model "
                        f"it stands for, {_shown(aliases[name])}"
                    )


def _shown(text: str) -> str:
    return ascii(text[:100])


def pick_along(
    names: tuple[str, ...],
    pick: Callable[[str], Worker],
    may_serve: Callable[[str], bool],
    is_over: Callable[[GatewayError], bool],
) -> tuple[str, Worker]:
    """Who serves, and as which model: the first of ``names`` that can.

    ``may_serve`` is asked of each but the first, which is the one asked for. If
    ``is_over`` says so of the first one's error, nobody stands in. Raises that error
    when nobody serves: the client asked for no other model.
    """
    asked, *others = names
    try:
        return asked, pick(asked)
    except NOBODY as error:
        if is_over(error):
            raise
        refusal = error
    try:
        for name in others:
            if may_serve(name):
                try:
                    return name, pick(name)
                except NOBODY:
                    pass
        raise refusal
    finally:
        del refusal  # its traceback holds this frame


class Way:
    """One request's way along its model's chain, over all its attempts.

    ``routed`` has, behind a pick, the name of the model that serves; it is released at
    the router as ever.
    """

    __slots__ = ("names", "_router", "_routed", "_may_serve")

    def __init__(
        self,
        names: tuple[str, ...],
        router: Router,
        routed: RoutingRequest,
        may_serve: Callable[[str], bool],
    ) -> None:
        """``names``: the model asked for, then its fallbacks, in order."""
        self.names = names
        self._router = router
        self._routed = routed
        self._may_serve = may_serve

    def pick(self, excluded: frozenset[Worker], failed: Set[Worker]) -> Worker:
        """The worker of the next attempt. Raises what the model asked for does.

        Workers at which this request has ``failed`` are as good as away, unless
        nobody else in the chain can be had; ``excluded`` ones never come again.
        """
        if failed - excluded:
            try:
                return self._pick(excluded | failed)
            except NOBODY:
                pass
        return self._pick(excluded)

    def has_other(self, excluded: frozenset[Worker]) -> bool:
        """Whether a worker that is not excluded could be picked, of any model."""
        self._routed.excluded = excluded
        return any(map(self._router.has_other, self._named()))

    def _pick(self, avoided: frozenset[Worker]) -> Worker:
        routed = self._routed
        routed.excluded = avoided

        def pick(name: str) -> Worker:
            routed.name = name
            routed.pin = None  # a policy may have set one and then found nobody
            return self._router.pick(routed)

        return pick_along(self.names, pick, self._may_serve, self._is_over)[1]

    def _is_over(self, error: GatewayError) -> bool:
        """Whether the model asked for has workers, and it is not for them to serve.

        They have too much to do, or the policy or its client wanted another one: load
        that is shed must not become the next model's.
        """
        return isinstance(error, OverloadShed) or self._router.has_other(self._routed)

    def _named(self) -> Iterator[RoutingRequest]:
        """The request, under each name that may serve it."""
        for name in self.names:
            if name == self.names[0] or self._may_serve(name):
                self._routed.name = name
                yield self._routed
