"""The provider of workers that a person chose, if any, wired to the fleet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from smgproxy.fleet.discovery import DiscoveryStats, Reconciler
from smgproxy.fleet.discovery_options import DiscoveryOptions
from smgproxy.fleet.file_discovery import FileDiscovery
from smgproxy.fleet.fleet import Fleet
from smgproxy.fleet.kubernetes_api import PodApi, connect, load
from smgproxy.fleet.kubernetes_discovery import KubernetesDiscovery
from smgproxy.fleet.outside import Running, Sleep, Spawn
from smgproxy.fleet.pod_watch import Listener, PodWatch
from smgproxy.fleet.pods import PodRules
from smgproxy.places import StartError
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.fleet_metrics import discovery_families
from smgproxy.telemetry.stats import DURATION_BOUNDS, Histogram

log = logging.getLogger(__name__)


class Discovery:
    """Keeps the fleet as its provider wants it, from start to close.

    ``hand_over`` runs a call on the event loop, from any thread. Raises StartError when
    the provider needs a package that is not there.
    """

    __slots__ = (
        *("_options", "_sleep", "_hand_over", "_stats", "_passes", "_reconciler"),
        *("_running", "_pods"),
    )

    def __init__(
        self,
        options: DiscoveryOptions,
        fleet: Fleet,
        sleep: Sleep,
        hand_over: Callable[..., object],
        bounds: tuple[float, ...] = DURATION_BOUNDS,
    ) -> None:
        if options.provider == "kubernetes":
            _load_client(options)
        self._options = options
        self._sleep = sleep
        self._hand_over = hand_over
        self._passes = Histogram(bounds)
        self._stats = DiscoveryStats(options.provider or "", self._passes.observe)
        self._reconciler = Reconciler(fleet, self._stats)
        self._running: Running | None = None
        self._pods: PodWatch | None = None

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
        elif options.provider == "kubernetes" and not options.selector:
            log.warning("--selector is not given, so no pod is taken for a worker")
        elif options.provider == "kubernetes":
            kubernetes = KubernetesDiscovery(self._reconciler, self._stats, self._sleep)
            self._pods = self._pod_watch(kubernetes, api_key)
            self._pods.start()
            self._running = spawn(kubernetes.watch())

    def _pod_watch(self, listener: Listener, api_key: str | None) -> PodWatch:
        options = self._options
        rules = PodRules(options.service_discovery_port, options.model_id_from, api_key)

        def connected() -> PodApi:
            namespace = options.service_discovery_namespace
            return PodApi(connect(), namespace, options.selector)

        return PodWatch(connected, rules, listener, self._hand_over)

    def close(self) -> None:
        """Find no more workers; those found stay."""
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if self._pods is not None:
            self._pods.stop()
            self._pods = None

    def families(self) -> Iterator[Family]:
        """What is counted of the provider; nothing without one."""
        if self._options.provider is not None:
            yield from discovery_families(self._stats, self._passes)


def _load_client(options: DiscoveryOptions) -> None:
    try:
        load()
    except ImportError as error:
        name = "--service-discovery"
        if not options.service_discovery:
            name = "--discovery-provider kubernetes"
        raise StartError(
            f"{name}: the Kubernetes client is not installed ({error}); "
            "pip install 'smgproxy[kubernetes]'"
        ) from None
