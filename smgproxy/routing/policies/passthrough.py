"""passthrough: always the first candidate."""

from __future__ import annotations

import logging

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policy import Draw, Policy
from smgproxy.routing.request import RoutingRequest

_log = logging.getLogger("smgproxy.routing")


class PassthroughPolicy(Policy):
    """Takes the first candidate in order of registration; meant for one worker."""

    __slots__ = ("_has_warned",)
    name = "passthrough"

    def __init__(self, draw: Draw | None = None) -> None:
        super().__init__(draw)
        self._has_warned = False

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The first candidate."""
        if not candidates:
            return None
        if len(candidates) > 1 and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "policy passthrough uses the first of %d workers only", len(candidates)
            )
        return candidates[0]
