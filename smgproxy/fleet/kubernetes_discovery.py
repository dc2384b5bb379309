"""Discovery from the pods of a Kubernetes cluster: the part on the event loop."""

from __future__ import annotations

import logging

from smgproxy.core.clock import monotonic
from smgproxy.fleet.discovery import DiscoveryStats, Reconciler, Wanted
from smgproxy.fleet.outside import Sleep
from smgproxy.fleet.pod_watch import Listener

log = logging.getLogger(__name__)

# A burst of changes is answered by one pass (contract: 1 s), and without any there
# is a pass every so often, for what others did to the workers.
LOOK_SECS = 1.0
PASS_SECS = 60.0
_DENIED = {401: "log in", 403: "list and watch pods"}


class KubernetesDiscovery(Listener):
    """Keeps what a PodWatch tells, and brings the fleet in line with it.

    While the API server cannot be asked, the pods last known stay workers.
    """

    __slots__ = (
        *("_reconciler", "_stats", "_sleep", "_pods", "_passed_at"),
        *("_is_listed", "_is_settled", "_complaint"),
    )

    def __init__(
        self, reconciler: Reconciler, stats: DiscoveryStats, sleep: Sleep
    ) -> None:
        self._reconciler = reconciler
        self._stats = stats
        self._sleep = sleep
        self._pods: dict[str, list[Wanted]] = {}
        self._passed_at = 0.0
        self._is_listed = False
        self._is_settled = False
        self._complaint = ""

    async def watch(self) -> None:
        """A pass a second after changes, and every minute, until cancelled."""
        while True:
            await self._sleep(LOOK_SECS)
            is_due = monotonic() - self._passed_at >= PASS_SECS
            if self._is_listed and (is_due or not self._is_settled):
                self._passed_at = monotonic()
                wanted = {one.id: one for pod in self._pods.values() for one in pod}
                self._is_settled = self._reconciler.run(wanted)

    def on_pods(self, pods: dict[str, list[Wanted]]) -> None:
        """The whole list, in place of what was known."""
        if not self._is_listed:
            log.info("watching %d pods of Kubernetes", len(pods))
        self._pods = {pod: workers for pod, workers in pods.items() if workers}
        self._is_listed = True
        self._is_settled = False

    def on_pod(self, pod: str, workers: list[Wanted]) -> None:
        """One pod changed, or is gone."""
        if workers == self._pods.get(pod, []):
            return  # a heartbeat
        if workers:
            self._pods[pod] = workers
        else:
            del self._pods[pod]
        self._is_settled = False

    def on_fault(self, pod: str, why: str) -> None:
        """A pod's annotations are wrong."""
        log.warning("pod %s: %s", pod, why)

    def on_trouble(self, status: int, why: str) -> None:
        """Logged once until it is over."""
        self._stats.snapshot_errors["unreadable"] += 1
        if why == self._complaint:
            return
        self._complaint = why
        allowed = _DENIED.get(status)
        remedy = (
            f"; the service account must be allowed to {allowed}" if allowed else ""
        )
        level = logging.ERROR if allowed else logging.WARNING
        log.log(level, "pods of Kubernetes cannot be watched: %s%s", why, remedy)

    def on_well(self) -> None:
        """Trouble is over."""
        log.info("pods of Kubernetes are watched again")
        self._complaint = ""

    def on_no_cluster(self, why: str) -> None:
        """Serving goes on with the workers that there are."""
        log.error("no Kubernetes cluster is configured, nothing is discovered: %s", why)
