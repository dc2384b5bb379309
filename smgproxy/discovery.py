"""The provider of workers that a person chose, if any, wired to the fleet."""

from __future__ import annotations

from collections.abc import Iterator

from smgproxy.fleet.discovery import DiscoveryStats, Reconciler
from smgproxy.fleet.discovery_options import DiscoveryOptions
from smgproxy.fleet.file_discovery import FileDiscovery
from smgproxy.fleet.fleet import Fleet
from smgproxy.fleet.outside import Running, Sleep, Spawn
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.fleet_metrics import discovery_families
from smgproxy.telemetry.stats import DURATION_BOUNDS, Histogram


class Discovery:
    """Keeps the fleet as its provider wants it, from start to close."""

    __slots__ = (
        *("_options", "_sleep", "_stats", "_passes", "_reconciler", "_running"),
    )

    def __init__(
        self,
        options: DiscoveryOptions,
        fleet: Fleet,
        sleep: Sleep,
        bounds: tuple[float, ...] = DURATION_BOUNDS,
    ) -> None:
        self._options = options
        self._sleep = sleep
        self._passes = Histogram(bounds)
        self._stats = DiscoveryStats(options.provider or "", self._passes.observe)
        self._reconciler = Reconciler(fleet, self._stats)
        self._running: Running | None = None

    def start(self, spawn: Spawn, api_key: str | None) -> None:
        """Begin, if there is a provider; its workers are asked with ``api_key``."""
        options = self._options
        if options.provider == "file" and options.discovery_file is not None:
            file = FileDiscovery(
                options.discovery_file,
                options.check_interval_secs,
                api_key,
                self._reconciler,
                self._stats,
                self._sleep,
            )
            self._running = spawn(file.watch())

    def close(self) -> None:
        """Find no more workers; those found stay."""
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def families(self) -> Iterator[Family]:
        """What is counted of the provider; nothing without one."""
        if self._options.provider is not None:
            yield from discovery_families(self._stats, self._passes)
