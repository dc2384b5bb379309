"""A ticket that remembers what it was told, and does something then if asked to."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.admission.classes import ClassLimits
from smgproxy.admission.ticket import Admission, Ticket
from smgproxy.core.errors import Shed


class Request(Ticket):
    """One request; ``heard`` is "grant" or a shed's code, in the order told."""

    __slots__ = ("name", "heard", "then")

    def __init__(
        self,
        name: str = "",
        priority: bytes | None = None,
        tenant: str = "anonymous",
        then: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(tenant, priority)
        self.name = name
        self.heard: list[str] = []
        self.then = then  # done once, from inside the first call

    def __repr__(self) -> str:
        return self.name or object.__repr__(self)

    def on_grant(self) -> None:
        self._hear("grant")

    def on_shed(self, shed: Shed) -> None:
        self._hear(str(shed.code))

    def _hear(self, what: str) -> None:
        self.heard.append(what)
        then, self.then = self.then, None
        if then is not None:
            then()


def submitted(
    admission: Admission,
    name: str = "",
    priority: bytes | None = None,
    now: float = 0.0,
    tenant: str = "anonymous",
) -> Request:
    """A request that was just submitted; whatever the answer, but a shed."""
    request = Request(name, priority, tenant)
    admission.submit(request, now)
    return request


def limits(
    reserved_floor: int = 0,
    queue_size: int = 10,
    *,
    timeout: int = 60,
    starvation: int = 30,
    can_preempt: bool = False,
    per_slot: float = 0.0,
) -> ClassLimits:
    """A class without promises, unless some are given."""
    return ClassLimits(
        reserved_floor, per_slot, queue_size, timeout, starvation, can_preempt
    )
