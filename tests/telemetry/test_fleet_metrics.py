from smgproxy.fleet.discovery import DiscoveryStats
from smgproxy.telemetry.fleet_metrics import discovery_families, overload_families
from smgproxy.telemetry.stats import Histogram, RouterStats
from tests.telemetry.samples import lines


def test_every_stage_of_a_shed_is_there_from_the_start() -> None:
    stats = RouterStats()
    stats.sheds = {"selection": 2, "dispatch": 5}
    assert lines(overload_families(stats, 3)) == [
        'smg_worker_overload_shed_total{stage="selection"} 2',
        'smg_worker_overload_shed_total{stage="dispatch"} 5',
        'smg_worker_overload_shed_total{stage="pd_admission"} 0',
        'smg_worker_overload_fallback_total{stage="selection"} 3',
    ]


def test_discovery_is_counted_by_its_source() -> None:
    stats = DiscoveryStats("file", lambda secs: None)
    stats.wanted, stats.added, stats.removed = 3, 4, 1
    stats.snapshot_errors["invalid"] = 2
    assert set(lines(discovery_families(stats, Histogram((1.0,))))) >= {
        'smg_discovery_registrations_total{source="file",result="success"} 4',
        'smg_discovery_registrations_total{source="file",result="failed"} 0',
        'smg_discovery_deregistrations_total{source="file",reason="reconciled"} 1',
        'smg_discovery_workers_discovered{source="file"} 3',
        'smg_discovery_snapshot_errors_total{source="file",reason="invalid"} 2',
        'smg_discovery_sync_duration_seconds_count{source="file"} 0',
    }
