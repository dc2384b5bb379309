import pytest

from smgproxy.fleet.options import FleetOptions, parse_probe_path


def test_health_settings_of_a_worker_default_to_the_flags() -> None:
    options = FleetOptions(
        health_failure_threshold=7,
        health_check_endpoint="/ready",
        drain_settle_secs=0,
    )
    health = options.health()
    assert (health.failure_threshold, health.endpoint) == (7, "/ready")
    assert (health.drain_settle_secs, health.check_interval_secs) == (0, 60)


def test_a_settle_time_nobody_gave_is_five_seconds_for_workers() -> None:
    assert FleetOptions().health().drain_settle_secs == 5


@pytest.mark.parametrize("path", ["health", "", "/a b", "/a\r\nx: y", "/\u00e9", "/#"])
def test_a_path_that_cannot_be_asked_for_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        parse_probe_path(path)


def test_a_path_with_a_query_is_kept() -> None:
    assert parse_probe_path("/health?deep=1") == "/health?deep=1"
