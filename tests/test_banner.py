"""The text at start-up, as a person reads it."""

import dataclasses
import shlex

import pytest
import ujson

from smgproxy import __version__
from smgproxy.admission.keys import ControlKey, Keys, Role, Secret
from smgproxy.admission.options import LimiterOptions
from smgproxy.banner import Facts, banner
from smgproxy.fleet.discovery_options import DiscoveryOptions
from smgproxy.server_options import ServerOptions
from smgproxy.settings import Settings
from smgproxy.simulated.options import SimulatedOptions
from smgproxy.telemetry.options import TelemetryOptions

SIMULATED = Facts(simulated_urls=("http://127.0.0.1:41001", "http://127.0.0.1:41002"))
NO_FACTS = Facts()


def simulated(host: str = "0.0.0.0", model: str = "sim-model") -> Settings:
    return Settings(
        server=ServerOptions(host=host, port=35010),
        simulated=SimulatedOptions(count=2, model=model),
    )


def row(text: str, title: str) -> str:
    [line] = [line for line in text.splitlines() if line.startswith(f"  {title} ")]
    return line.removeprefix(f"  {title}").strip()


def commands(text: str) -> list[list[str]]:
    """The words of each curl command, as a shell takes them apart."""
    found = text.partition("Try it")[2].partition("\n")[2].replace("\\\n", "")
    return [shlex.split(line) for line in found.splitlines()]


def test_first_line_names_the_version() -> None:
    text = banner(Settings(), NO_FACTS)
    assert text.splitlines()[0] == f"smgproxy {__version__} is up"


def test_says_what_is_served_where() -> None:
    server = ServerOptions(host="127.0.0.2", port=35010, health_check_port=35011)
    telemetry = TelemetryOptions(prometheus_port=35012, prometheus_host="127.0.0.3")
    text = banner(Settings(server=server, telemetry=telemetry), NO_FACTS)
    assert row(text, "API") == "http://127.0.0.2:35010"
    assert row(text, "metrics") == "http://127.0.0.3:35012/metrics"
    probes = "http://127.0.0.2:35011 (/health, /liveness, /readiness)"
    assert row(text, "probes") == probes
    assert row(text, "policy") == "cache_aware"


def test_probe_port_that_is_not_there_is_not_named() -> None:
    assert "probes" not in banner(Settings(), NO_FACTS)


def test_ipv6_addresses_are_bracketed() -> None:
    text = banner(Settings(server=ServerOptions(host="::")), NO_FACTS)
    assert row(text, "API") == "http://[::]:30000"
    # Without --prometheus-host: every address of the family of --host.
    assert row(text, "metrics") == "http://[::]:29000/metrics"


def test_sockets_that_were_handed_over_take_the_place_of_host_and_port() -> None:
    facts = Facts(SIMULATED.simulated_urls, api_urls=("http://192.0.2.7:443",))
    text = banner(simulated("127.0.0.1"), facts)
    assert row(text, "API") == "http://192.0.2.7:443"
    assert commands(text)[0][1] == "http://192.0.2.7:443/v1/chat/completions"


def test_simulated_workers_are_said_to_be_simulated() -> None:
    text = banner(simulated(), SIMULATED)
    assert text.count("(simulated: answers are made up)") == 2
    first = "http://127.0.0.1:41001 (simulated: answers are made up)"
    assert row(text, "workers") == first


def test_real_workers_are_listed_as_given() -> None:
    server = ServerOptions(worker_urls=("http://10.0.0.1:8000", "http://10.0.0.2:80"))
    text = banner(Settings(server=server), NO_FACTS)
    assert row(text, "workers") == "http://10.0.0.1:8000"
    assert "           http://10.0.0.2:80\n" in text
    assert "simulated" not in text


def test_without_workers_it_says_how_to_add_one() -> None:
    text = row(banner(Settings(), NO_FACTS), "workers")
    assert text == "none yet; --worker-urls names some, POST /workers adds one"


def test_with_discovery_it_says_who_names_the_workers() -> None:
    file = DiscoveryOptions(discovery_provider="file", discovery_file="x")
    text = banner(Settings(discovery=file), NO_FACTS)
    assert row(text, "workers") == "those that --discovery-file lists"
    server = ServerOptions(worker_urls=("http://10.0.0.1:8000",))
    pods = DiscoveryOptions(service_discovery=True, selector=("a=b",))
    text = banner(Settings(server=server, discovery=pods), NO_FACTS)
    assert row(text, "workers") == "the pods of Kubernetes that --selector matches"
    assert "           http://10.0.0.1:8000\n" in text


def test_many_workers_do_not_fill_the_screen() -> None:
    urls = tuple(f"http://10.0.0.{number}:8000" for number in range(1, 201))
    text = banner(Settings(server=ServerOptions(worker_urls=urls)), NO_FACTS)
    assert "http://10.0.0.4:8000\n" in text
    assert "http://10.0.0.5:8000" not in text
    assert "and 196 more (GET /workers lists them)" in text


def test_names_what_is_open_and_how_to_close_it() -> None:
    text = banner(Settings(), NO_FACTS)
    assert "SECURITY POSTURE: no credentials are asked for." in text
    for what in ("data plane", "control plane", "metrics"):
        assert what in text
    assert "firewall" in text
    assert "--host 127.0.0.1 --prometheus-host 127.0.0.1" in text


def test_open_metrics_alone_are_worth_the_advice() -> None:
    text = banner(Settings(server=ServerOptions(host="127.0.0.1")), NO_FACTS)
    assert "--prometheus-host 127.0.0.1" in text


def test_keys_close_what_they_open() -> None:
    keys = Keys([Secret("k-shared")])
    text = banner(Settings(keys=keys), NO_FACTS)
    asked, still_open, *_ = text.partition("SECURITY POSTURE: ")[2].splitlines()
    assert asked.startswith("keys are asked for: data plane (inference), control plane")
    assert still_open.strip() == "metrics"
    assert "    --prometheus-host 127.0.0.1\n" in text
    assert "k-shared" not in text


def test_control_plane_keys_leave_the_data_plane_open() -> None:
    admin = ControlKey("ops", "Operations", Role.ADMIN, Secret("k-ops"))
    text = banner(Settings(keys=Keys(control=[admin])), NO_FACTS)
    assert "keys are asked for: control plane (/workers, /flush_cache). Open" in text
    assert "    data plane (inference), metrics\n" in text


def test_example_has_a_place_for_the_key_that_is_asked_for() -> None:
    settings = dataclasses.replace(simulated(), keys=Keys([Secret("k")]))
    whole, _ = commands(banner(settings, SIMULATED))
    assert "authorization: Bearer $KEY" in whole


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_on_loopback_alone_no_firewall_is_advised(host: str) -> None:
    telemetry = TelemetryOptions(prometheus_host=host)
    settings = Settings(server=ServerOptions(host=host), telemetry=telemetry)
    text = banner(settings, NO_FACTS)
    assert "Only programs on this machine reach them." in text
    assert "firewall" not in text
    assert "SECURITY POSTURE" in text


@pytest.mark.parametrize(
    ("host", "authority"),
    [
        ("0.0.0.0", "127.0.0.1:35010"),
        ("::", "[::1]:35010"),
        ("192.0.2.1", "192.0.2.1:35010"),
    ],
)
def test_example_can_be_copied(host: str, authority: str) -> None:
    whole, stream = commands(banner(simulated(host), SIMULATED))
    url = f"http://{authority}/v1/chat/completions"
    header = ["-H", "content-type: application/json", "-d"]
    assert whole[:-1] == ["curl", url, *header]
    assert stream[:-1] == ["curl", "-N", url, *header]
    chat = {"model": "sim-model", "messages": [{"role": "user", "content": "Hello"}]}
    assert ujson.loads(whole[-1]) == chat
    assert ujson.loads(stream[-1]) == {**chat, "stream": True}


def test_example_survives_an_odd_model_name() -> None:
    text = banner(simulated(model='l\'été "7b"/x'), SIMULATED)
    assert ujson.loads(commands(text)[0][-1])["model"] == 'l\'été "7b"/x'
    assert text.isascii()


def test_without_simulated_workers_there_is_no_example() -> None:
    server = ServerOptions(worker_urls=("http://10.0.0.1:8000",))
    assert "curl" not in banner(Settings(server=server), NO_FACTS)


def test_plain_ascii_and_at_most_twenty_lines() -> None:
    urls = tuple(f"http://10.0.0.{number}:8000" for number in range(1, 20))
    server = ServerOptions(worker_urls=urls, health_check_port=35011)
    settings = Settings(server=server, simulated=SimulatedOptions(count=2))
    text = banner(settings, SIMULATED)
    assert text.isascii()
    assert text.endswith("\n")
    assert len(text.splitlines()) <= 20
    assert max(map(len, text.splitlines())) <= 100


def test_colour_only_when_asked_for() -> None:
    plain = banner(simulated(), SIMULATED)
    coloured = banner(simulated(), SIMULATED, is_coloured=True)
    assert "\x1b" not in plain
    assert coloured != plain
    for code in ("\x1b[1m", "\x1b[33m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


@pytest.mark.parametrize(
    ("limits", "has_scheduler", "shown"),
    [
        (
            LimiterOptions(100),
            False,
            "100 requests at once, 100 more wait for up to 60 s",
        ),
        (LimiterOptions(5, queue_size=0), False, "5 requests at once"),
        (LimiterOptions(5), True, "priority scheduler"),
    ],
)
def test_what_limits_the_requests_is_told(
    limits: LimiterOptions, has_scheduler: bool, shown: str
) -> None:
    facts = Facts(has_scheduler=has_scheduler)
    assert row(banner(Settings(limiter=limits), facts), "limits") == shown


def test_nothing_is_told_of_limits_that_are_not_set() -> None:
    assert "limits" not in banner(Settings(), NO_FACTS)
