"""Workers, loads and requests for tests of routing; no socket, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loadtest.prompts import Given
from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import NO_HEADERS, RoutingRequest

KEY = b"x-smg-routing-key"


def asked(
    model: str | None = "m",
    headers: Mapping[bytes, bytes] = NO_HEADERS,
    now: float = 0,
    *,
    read_text: Callable[[], str] = str,
    input_ids: Sequence[int] | None = None,
    rid: str | None = None,
    partition: str | None = None,
) -> RoutingRequest:
    """A request with such a body."""
    body = Given(read_text, input_ids, rid, partition)
    return RoutingRequest(model, headers, now, body)


def workers(count: int) -> tuple[Worker, ...]:
    """Workers that nobody sent anything to."""
    return tuple(Worker(f"id-{n}", f"http://w{n}:1") for n in range(count))


def with_loads(*loads: int) -> tuple[Worker, ...]:
    """Workers with so many requests in flight."""
    fleet = workers(len(loads))
    for worker, load in zip(fleet, loads):
        worker.load = load
    return fleet


def report(worker: Worker, **told: float) -> None:
    """A load report of one rank; what it does not tell is 0."""
    names = (
        *("num_waiting_uncached_tokens", "num_running_reqs", "num_waiting_reqs"),
        *("gen_throughput", "token_usage"),
    )
    worker.backlog.note_report({"loads": [{n: told.get(n, 0) for n in names}]})


def keyed(
    key: str | None = None, rid: str | None = None, now: float = 0, model: str = "m"
) -> RoutingRequest:
    """A request with a routing key in its header, in its body, or in neither."""
    headers: Mapping[bytes, bytes] = {} if key is None else {KEY: key.encode()}
    return asked(model, headers, now, rid=rid)


def prompt(text: str, partition: str = "", now: float = 0) -> RoutingRequest:
    """A request whose body is text."""
    return asked("m", {}, now, read_text=lambda: text, partition=partition)


def tokens(*ids: int, now: float = 0) -> RoutingRequest:
    """A request whose body is token ids."""
    return asked("m", {}, now, input_ids=ids)


def draws(*numbers: float) -> Callable[[], float]:
    """Chance that is none: these numbers, over and over."""
    place = -1

    def draw() -> float:
        nonlocal place
        place = (place + 1) % len(numbers)
        return numbers[place]

    return draw
