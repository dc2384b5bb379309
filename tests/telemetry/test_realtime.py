"""What is counted of realtime sessions."""

from __future__ import annotations

from smgproxy.telemetry.realtime import MAX_CODES, RealtimeStats


def _samples(stats: RealtimeStats) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in stats.families()
        for sample in family.metric().samples
    }


def test_the_numbers_are_on_the_page() -> None:
    stats = RealtimeStats()
    stats.open, stats.opened, stats.refused = 1, 3, 2
    stats.from_clients, stats.from_workers = 10, 20
    stats.count_close("client", 1000)
    stats.count_close("client", 1000)
    assert _samples(stats) == {
        ("smg_realtime_sessions_open",): 1,
        ("smg_realtime_sessions_total",): 3,
        ("smg_realtime_refused_total",): 2,
        ("smg_realtime_bytes_total", "client"): 10,
        ("smg_realtime_bytes_total", "worker"): 20,
        ("smg_realtime_closes_total", "client", "1000"): 2,
    }


def test_codes_that_clients_make_up_share_a_label_beyond_a_bound() -> None:
    stats = RealtimeStats()
    for code in range(4000, 4200):
        stats.count_close("client", code)
    assert len(stats.closes) == MAX_CODES + 1
    assert stats.closes["client", "other"] == 200 - MAX_CODES
