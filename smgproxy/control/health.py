"""/health, /liveness and /readiness: what load balancers and supervisors ask."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.replies import Reply, json_reply, text_reply
from smgproxy.fleet.registry import Registry


class Probes:
    """Answers for a main port or a port of their own.

    Whether the gateway lives and whether it should get traffic are two questions:
    only the second one looks at workers and at the drain.
    """

    __slots__ = ("_registry", "_is_draining")

    def __init__(self, registry: Registry, is_draining: Callable[[], bool]) -> None:
        self._registry = registry
        self._is_draining = is_draining

    async def alive(self, request: ControlRequest) -> Reply:
        """200 for as long as there is anybody to answer, a drain included."""
        return text_reply(200, "OK")

    async def readiness(self, request: ControlRequest) -> Reply:
        """200 while requests are welcome and some worker can serve them."""
        if self._is_draining():
            return _not_ready("draining")
        # Counted without the registry's cache: a probe port may have a thread of its
        # own, which must not write there.
        workers = self._registry.all()
        healthy = sum(one.is_ready for one in workers)
        if not healthy:
            return _not_ready("insufficient healthy workers")
        return json_reply(
            200,
            {
                "status": "ready",
                "healthy_workers": healthy,
                "total_workers": len(workers),
            },
        )


def _not_ready(reason: str) -> Reply:
    return json_reply(503, {"status": "not ready", "reason": reason})
