"""Discovery from a file that may change at any time, and need not be there yet."""

from __future__ import annotations

import logging
import os
import stat

from smgproxy.core.clock import monotonic
from smgproxy.fleet.discovery import DiscoveryStats, Reconciler, Wanted
from smgproxy.fleet.manifest import InvalidManifest, parse_manifest
from smgproxy.fleet.outside import Sleep

log = logging.getLogger(__name__)

# How soon a change is noticed (contract: within about a second).
LOOK_SECS = 1.0
MAX_MANIFEST_BYTES = 4 * 1024 * 1024

_Mark = tuple[int, int, int, int]


class FileDiscovery:
    """Reads a manifest whenever it changes, and every so often in any case.

    The last good manifest stays in force while the file is missing, unreadable or
    wrong; why it is so is logged once, not at every look. Stat and read are plain
    calls on the event loop: a small file, bounded, read only when it changed.
    """

    __slots__ = (
        *("_path", "_interval", "_api_key", "_reconciler", "_stats", "_sleep"),
        *("_wanted", "_data", "_mark", "_read_at", "_complaint", "_is_settled"),
    )

    def __init__(
        self,
        path: str,
        interval_secs: float,
        api_key: str | None,
        reconciler: Reconciler,
        stats: DiscoveryStats,
        sleep: Sleep,
    ) -> None:
        self._path = path
        self._interval = interval_secs
        self._api_key = api_key
        self._reconciler = reconciler
        self._stats = stats
        self._sleep = sleep
        self._wanted: dict[str, Wanted] | None = None  # None: no good manifest yet
        self._data = b""  # what the last good manifest was read from
        self._mark: _Mark | None = None
        self._read_at = 0.0
        self._complaint = ""
        self._is_settled = True

    async def watch(self) -> None:
        """Look at the file, now and every second, until cancelled."""
        while True:
            self.look()
            await self._sleep(LOOK_SECS)

    def look(self) -> None:
        """Read the file if it is time to, and bring the fleet in line."""
        mark = _mark_of(self._path)
        is_due = monotonic() - self._read_at >= self._interval
        if mark != self._mark or is_due or not self._read_at:
            self._mark = mark
            self._read_at = monotonic()
            self._read()
        elif self._is_settled:
            return
        if self._wanted is not None:
            self._is_settled = self._reconciler.run(self._wanted)

    def _read(self) -> None:
        try:
            data = _contents(self._path)
            if data != self._data:
                self._wanted = parse_manifest(data, self._api_key)
                self._data = data
        except InvalidManifest as error:
            self._complain("invalid", str(error))
        except OSError as error:
            self._complain("unreadable", error.strerror or str(error))
        else:
            if self._complaint:
                log.info("discovery file %s can be used again", self._path)
            self._complaint = ""

    def _complain(self, reason: str, why: str) -> None:
        self._stats.snapshot_errors[reason] += 1
        if why == self._complaint:
            return
        self._complaint = why
        stays = (
            "no workers discovered yet"
            if self._wanted is None
            else f"the last good one stays in force, {len(self._wanted)} workers"
        )
        log.warning("discovery file %s is %s: %s; %s", self._path, reason, why, stays)


def _mark_of(path: str) -> _Mark | None:
    """What tells one content of the file from another; None when it is not there.

    The inode is in it for files that are replaced by renaming, and for symlinks that
    are turned to another file, which is how Kubernetes renews a ConfigMap.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _contents(path: str) -> bytes:
    """The bytes of a file of bounded size. Raises OSError, InvalidManifest."""
    # A pipe would block the loop at open or at read.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidManifest("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_MANIFEST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_MANIFEST_BYTES:
        raise InvalidManifest(f"longer than {MAX_MANIFEST_BYTES} bytes")
    return data
