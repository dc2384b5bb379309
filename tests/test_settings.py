"""What start-up refuses, and what the rooms are given."""

from typing import Any

import pytest

from smgproxy.fleet.discovery_options import DiscoveryOptions
from smgproxy.fleet.fields import InvalidSpec
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.spec import check_url
from smgproxy.routing.fallback import parse_chain
from smgproxy.server_options import (
    NotSupportedYet,
    ServerOptions,
    parse_host,
    parse_worker_url,
    shown,
)
from smgproxy.settings import (
    DeclaredFlag,
    Settings,
    SettingsError,
    declared_flags,
    make_settings,
)
from smgproxy.simulated.options import SimulatedOptions
from smgproxy.telemetry.options import TelemetryOptions


def flag(name: str) -> DeclaredFlag:
    [found] = [one for one in declared_flags() if one.flag.name == name]
    return found


def settings_of(**values: Any) -> Settings:
    """Settings of flags given as port=1 for --port."""
    names = {name: f"--{name.replace('_', '-')}" for name in values}
    flags = {one.flag.name: one for one in declared_flags()}
    return make_settings({flags[names[name]]: value for name, value in values.items()})


def test_defaults_are_those_of_the_contract() -> None:
    server = Settings().server
    assert (server.host, server.port) == ("0.0.0.0", 30000)
    assert (server.worker_urls, server.health_check_port) == ((), None)
    assert server.shutdown_grace_period_secs == 180
    assert not server.reuse_port


def test_nothing_given_is_the_defaults() -> None:
    assert make_settings({}) == Settings()


def test_a_value_reaches_the_room_that_declared_it() -> None:
    settings = settings_of(port=35001, policy="random", max_header_count=9)
    assert settings.server.port == 35001
    assert settings.routing.policy == "random"
    assert settings.heads.max_header_count == 9


def test_gateway_may_start_without_workers() -> None:
    settings = make_settings({})
    assert settings.server.worker_urls == ()
    assert settings.simulated is None


def test_worker_listed_twice_is_one_worker() -> None:
    urls = ("http://b:1", "http://a:1", "http://b:1", "http://b:1/")
    # The text is the identity: a slash makes another worker.
    kept = ("http://b:1", "http://a:1", "http://b:1/")
    assert ServerOptions(worker_urls=urls).worker_urls == kept


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (
            {"prometheus_port": 30000},
            "--prometheus-port: must differ from --port, both are 30000; "
            "each listener needs a port of its own",
        ),
        (
            {"health_check_port": 30000},
            "--health-check-port: must differ from --port, both are 30000; "
            "each listener needs a port of its own",
        ),
        (
            {"health_check_port": 29000},
            "--health-check-port: must differ from --prometheus-port, both are "
            "29000; each listener needs a port of its own",
        ),
    ],
)
def test_listeners_do_not_share_a_port(values: dict[str, int], error: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of(**values)
    assert str(refused.value) == error


def test_metrics_host_is_an_address_too() -> None:
    with pytest.raises(SettingsError, match="--prometheus-host: must be an IP address"):
        settings_of(prometheus_host="localhost")
    kept = Settings(telemetry=TelemetryOptions(prometheus_host="[::1]"))
    assert kept.telemetry.prometheus_host == "::1"


def test_fault_that_a_room_finds_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match="^--prometheus-duration-buckets"):
        settings_of(prometheus_duration_buckets=(2.0, 1.0))


def test_a_chain_of_models_names_no_alias() -> None:
    chains = (parse_chain("big=small"),)
    with pytest.raises(
        SettingsError, match="^--model-fallback: 'small' is a --model-a"
    ):
        settings_of(model_fallback=chains, model_alias=("small=tiny",))
    assert settings_of(model_fallback=chains).fallbacks.model_fallbacks == chains


def test_simulated_workers_come_with_their_defaults() -> None:
    settings = settings_of(simulated_workers=3)
    assert settings.simulated == SimulatedOptions(count=3)


def test_simulated_flags_reach_the_simulation() -> None:
    settings = settings_of(
        simulated_workers=1,
        simulated_model="m",
        simulated_ttft_ms=0.0,
        simulated_tokens_per_second=7.5,
    )
    assert settings.simulated == SimulatedOptions(1, "m", 0.0, 7.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("simulated_model", "m"),
        ("simulated_ttft_ms", 1.0),
        ("simulated_tokens_per_second", 0.0),
    ],
)
def test_simulated_flag_without_workers_is_not_ignored(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of(**{name: value})
    option = name.replace("_", "-")
    text = f"--{option}: has no effect without --simulated-workers N"
    assert str(refused.value) == text


def test_simulated_model_needs_a_name() -> None:
    with pytest.raises(SettingsError, match="^--simulated-model: must not be empty$"):
        settings_of(simulated_workers=1, simulated_model="")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"worker_urls": ("http://a",)},
        {"simulated_workers": 1},
    ],
)
def test_power_of_two_needs_two_workers(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of(policy="power_of_two", **values)
    assert str(refused.value) == (
        "--policy: Incompatible configuration: Power-of-two policy requires at least 2 "
        "workers; name them with --worker-urls, or use another policy"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"worker_urls": ("http://a", "http://b")},
        {"worker_urls": ("http://a",), "simulated_workers": 1},
        {"simulated_workers": 2},
        {"discovery_provider": "file", "discovery_file": "/nowhere"},
        {"worker_urls": ("http://a",), "dp_aware": True},
    ],
)
def test_power_of_two_starts_where_there_may_be_two_workers(
    values: dict[str, Any],
) -> None:
    assert settings_of(policy="power_of_two", **values).routing.policy == "power_of_two"


def test_log_level_of_the_environment_replaces_the_flag() -> None:
    given = {flag("--log-level"): "error"}
    assert make_settings(given, log_level="debug").telemetry.log_level == "debug"
    assert make_settings(given).telemetry.log_level == "error"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0.0.0.0", "0.0.0.0"),
        ("127.0.0.1", "127.0.0.1"),
        ("::", "::"),
        ("[::1]", "::1"),
        ("fd00::1", "fd00::1"),
    ],
)
def test_host_is_an_address(given: str, kept: str) -> None:
    assert parse_host(given) == kept


@pytest.mark.parametrize(
    "text",
    ["localhost", "", "[127.0.0.1]", "[::1", "1.2.3", "1.2.3.4:80", "::1\x00"],
)
def test_host_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^must be an IP address such as 0.0.0.0"):
        parse_host(text)


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:8000", "https://engine:8000/", "http://[::1]:8000"]
)
def test_worker_url_is_kept_as_given(url: str) -> None:
    assert parse_worker_url(url) == url


@pytest.mark.parametrize("url", ["HTTP://a:1", "ftp://a:1", "a:8000", "", "http:a"])
def test_worker_url_begins_with_a_scheme_in_lower_case(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_worker_url(url)
    assert str(refused.value) == (
        "must start with http:// or https:// in lower case, such as "
        f"http://127.0.0.1:8000, got {shown(url)}"
    )


@pytest.mark.parametrize("url", ["http://a\n:1", "http://\u00e9:1", "http://\x1b:1"])
def test_worker_url_is_printable_ascii(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_worker_url(url)
    assert str(refused.value) == f"must be printable ASCII, got {shown(url)}"


@pytest.mark.parametrize(
    "url",
    ["http://", "http://a:0", "http://[::1", "http://a b:1", "http://a:1/b"],
)
def test_worker_url_that_cannot_be_added_cannot_be_started_with(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_worker_url(url)
    assert str(refused.value).startswith(f"{url} - ")


@pytest.mark.parametrize("scheme", ["grpc", "grpcs", "ipc"])
def test_scheme_of_the_contract_is_not_supported_yet(scheme: str) -> None:
    with pytest.raises(NotSupportedYet) as refused:
        parse_worker_url(f"{scheme}://a:1")
    text = str(refused.value)
    assert text.startswith(f"{scheme}:// workers are not supported yet by smgproxy ")
    assert text.endswith("; available: http://, https://")
    # When it can be added by POST /workers, it is time to support it here too.
    with pytest.raises(InvalidSpec, match="not supported yet"):
        check_url(f"{scheme}://a:1")


@pytest.mark.parametrize(
    "url", ["http://me:secret@a:1", "HTTP://me:secret@a:1", "me:secret@a"]
)
def test_password_in_a_refused_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_worker_url(url)
    assert "secret" not in str(refused.value)
    assert "***@a" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("30000", "30000"),
        ("", "''"),
        ("a b", "'a b'"),
        ("a\nb", "'a\\nb'"),
        ("\u00e9", "'\\xe9'"),
        ("x" * 100, "x" * 60 + "..."),
    ],
)
def test_given_values_are_shown_on_one_line(text: str, kept: str) -> None:
    assert shown(text) == kept


def test_no_two_flags_share_a_spelling() -> None:
    names = [name for one in declared_flags() for name in one.spellings]
    assert len(names) == len(set(names))


def test_switch_with_no_fixed_default_can_be_switched_off() -> None:
    assert flag("--remove-unhealthy-workers").spellings == (
        "--remove-unhealthy-workers",
        "--worker-auto-recovery",
        "--no-remove-unhealthy-workers",
        "--no-worker-auto-recovery",
    )
    assert flag("--reuse-port").spellings == ("--reuse-port",)


@pytest.mark.parametrize(
    ("given", "is_discovered", "is_removed"),
    [(None, False, None), (None, True, True), (False, True, False)],
)
def test_failed_workers_are_removed_by_default_only_where_they_are_found_again(
    given: bool | None, is_discovered: bool, is_removed: bool | None
) -> None:
    settings = Settings(
        fleet=FleetOptions(remove_unhealthy_workers=given),
        discovery=DiscoveryOptions(service_discovery=is_discovered),
    )
    assert settings.fleet.remove_unhealthy_workers is is_removed
