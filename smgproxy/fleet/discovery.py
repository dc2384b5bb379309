"""Brings the fleet in line with what a provider says should be in it.

A provider (a file, Kubernetes) names every worker there should be; a pass compares
that with the workers made here and adds and removes the difference. Nothing else is
remembered between passes, so a pass that came too early is made good by the next.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from smgproxy.core.clock import monotonic
from smgproxy.fleet.fleet import AlreadyRegistered, Fleet
from smgproxy.fleet.jobs import QueueFull
from smgproxy.fleet.spec import WorkerSpec
from smgproxy.fleet.worker import WorkerState

log = logging.getLogger(__name__)

PROVIDER_LABEL = "smg.ai/discovery-provider"
ID_LABEL = "smg.ai/discovery-id"
HASH_LABEL = "smg.ai/discovery-spec-hash"
# More workers than one gateway can watch: a selector or a file gone wrong.
MAX_WANTED = 4096
# Each is told to all that keeps step with the fleet, a millisecond when it is as
# large as that; a pass must not hold up the loop.
CHANGES_A_PASS = 64


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A worker there should be; ``digest`` changes whenever it is to be replaced."""

    id: str
    spec: WorkerSpec
    digest: str


class DiscoveryStats:
    """What a provider has done; plain numbers that metrics read at scrape time.

    ``observe`` is told how long each pass took that changed something, in seconds.
    """

    __slots__ = (
        *("source", "observe", "wanted", "added", "not_added", "removed"),
        "snapshot_errors",
    )

    def __init__(self, source: str, observe: Callable[[float], None]) -> None:
        self.source = source
        self.observe = observe
        self.wanted = 0
        self.added = 0
        self.not_added = 0
        self.removed = 0
        self.snapshot_errors = {"invalid": 0, "unreadable": 0}


def digest_of(given: Any) -> str:
    """The fingerprint of a worker's description, the same for the same JSON value."""
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Reconciler:
    """Makes workers, and unmakes those that it made; nobody else's are touched."""

    __slots__ = ("_fleet", "_stats", "_made", "_last_change")

    def __init__(self, fleet: Fleet, stats: DiscoveryStats) -> None:
        self._fleet = fleet
        self._stats = stats
        # Worker id and digest, by the id that the provider gave.
        self._made: dict[str, tuple[str, str]] = {}
        self._last_change = 0

    def run(self, wanted: Mapping[str, Wanted]) -> bool:
        """One pass; whether all is as wanted, or a later pass has to go on.

        A worker that still comes up, or still drains, is left to the next pass; so is
        what comes behind CHANGES_A_PASS.
        """
        began = monotonic()
        self._stats.wanted = len(wanted)
        before = self._changes
        self._last_change = before + CHANGES_A_PASS
        self._forget_gone()
        is_settled = True
        for key, (worker_id, digest) in list(self._made.items()):
            one = wanted.get(key)
            if one is None or one.digest != digest:
                self._remove(worker_id)
                if self._fleet.is_known(worker_id):
                    is_settled = False
                else:
                    del self._made[key]
        try:
            for key, one in wanted.items():
                if key not in self._made:
                    if self._changes >= self._last_change:
                        is_settled = False
                        break
                    self._add(key, one)
        except QueueFull as error:
            log.warning("discovered workers have to wait: %s", error)
            self._stats.not_added += 1
            is_settled = False
        if self._changes != before:
            self._stats.observe(monotonic() - began)
        return is_settled

    @property
    def _changes(self) -> int:
        return self._stats.added + self._stats.removed

    def _forget_gone(self) -> None:
        """What failed to come up, or was removed by others, is as if never made."""
        for key, (worker_id, _) in list(self._made.items()):
            if not self._fleet.is_known(worker_id):
                del self._made[key]

    def _remove(self, worker_id: str) -> None:
        # One that still comes up cannot be removed (contract, worker registry).
        staying = [
            one
            for one in self._fleet.came_of(worker_id)
            if one.state is not WorkerState.DRAINING
        ]
        if not staying or self._changes >= self._last_change:
            return
        url = staying[0].base_url
        log.info("worker %s is no longer wanted by discovery", url)
        for one in staying:
            self._fleet.remove(one.id)
        self._stats.removed += 1

    def _add(self, key: str, one: Wanted) -> None:
        """Add it, unless another worker has its URL. Raises QueueFull."""
        try:
            job = self._fleet.add(one.spec)
        except AlreadyRegistered as error:
            log.debug("discovered worker %s is left alone: %s", key, error)
            return
        self._stats.added += 1
        self._made[key] = (job.worker_id, one.digest)
