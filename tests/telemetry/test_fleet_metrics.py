from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from smgproxy.fleet.discovery import DiscoveryStats
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.fleet_metrics import discovery_families, overload_families
from smgproxy.telemetry.stats import Histogram


class _Page:
    """A page of one family."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family.metric()


def text_of(family: Family) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(family))
    return generate_latest(registry).decode()


def test_every_stage_of_a_shed_is_there_from_the_start() -> None:
    shed, fallback = map(text_of, overload_families(2, 3))
    assert [line for line in shed.splitlines() if line[:1] not in ("#", "")] == [
        'smg_worker_overload_shed_total{stage="selection"} 2.0',
        'smg_worker_overload_shed_total{stage="dispatch"} 0.0',
        'smg_worker_overload_shed_total{stage="pd_admission"} 0.0',
    ]
    assert 'smg_worker_overload_fallback_total{stage="selection"} 3.0' in fallback


def test_discovery_is_counted_by_its_source() -> None:
    stats = DiscoveryStats("file", lambda secs: None)
    stats.wanted, stats.added, stats.removed = 3, 4, 1
    stats.snapshot_errors["invalid"] = 2
    text = "".join(map(text_of, discovery_families(stats, Histogram((1.0,)))))
    for line in (
        'smg_discovery_registrations_total{result="success",source="file"} 4.0',
        'smg_discovery_registrations_total{result="failed",source="file"} 0.0',
        'smg_discovery_deregistrations_total{reason="reconciled",source="file"} 1.0',
        'smg_discovery_workers_discovered{source="file"} 3.0',
        'smg_discovery_snapshot_errors_total{reason="invalid",source="file"} 2.0',
        'smg_discovery_sync_duration_seconds_count{source="file"} 0.0',
    ):
        assert line in text.splitlines()
