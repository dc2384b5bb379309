from smgproxy.telemetry.fleet_metrics import overload_families


def test_every_stage_of_a_shed_is_there_from_the_start() -> None:
    shed, fallback = (family.text() for family in overload_families(2, 3))
    assert [line for line in shed.splitlines() if line[:1] not in ("#", "")] == [
        'smg_worker_overload_shed_total{stage="selection"} 2',
        'smg_worker_overload_shed_total{stage="dispatch"} 0',
        'smg_worker_overload_shed_total{stage="pd_admission"} 0',
    ]
    assert 'smg_worker_overload_fallback_total{stage="selection"} 3' in fallback
