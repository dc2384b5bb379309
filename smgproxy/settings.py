"""All settings of one gateway: the sum of every room's options, and their flags.

A room declares what it lets people tune beside the code that it tunes. Here they are
put together, and here stands what one room alone cannot check. Nothing in this module
reads the command line or the environment: cli.py does.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from smgproxy.admission.budget_options import BudgetOptions
from smgproxy.admission.budget_rules import TenantRules
from smgproxy.admission.key_options import KeyOptions
from smgproxy.admission.keys import Keys
from smgproxy.admission.options import LimiterOptions, SchedulerOptions
from smgproxy.api.aliases import AliasOptions
from smgproxy.api.cors import CorsOptions
from smgproxy.core.options import Flag, flag, flags_of
from smgproxy.dispatch.options import DispatchOptions
from smgproxy.dispatch.realtime_options import RealtimeOptions
from smgproxy.dispatch.retry import RetryOptions
from smgproxy.downstream.listener import ClientTimeouts
from smgproxy.fleet.breaker import BreakerOptions
from smgproxy.fleet.discovery_options import DiscoveryOptions
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.overload import OverloadOptions
from smgproxy.routing.fallback import FallbackOptions
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.policies.power_of_two import PowerOfTwoPolicy
from smgproxy.routing.router import RoutingOptions
from smgproxy.server_options import ServerOptions, parse_host
from smgproxy.simulated.options import MAX_WORKERS, SimulatedOptions
from smgproxy.telemetry.options import TelemetryOptions
from smgproxy.tls.options import TlsOptions
from smgproxy.upstream.options import UpstreamOptions
from smgproxy.wire.http1_request import HeadLimits

_SIMULATED = "Simulated Workers"
_UNLESS_GIVEN = SimulatedOptions()


class SettingsError(ValueError):
    """A setting that the gateway cannot start with; the text begins with the flag."""


@dataclasses.dataclass(frozen=True)
class SimulatedFlags:
    """The flags behind SimulatedOptions, a class that stands by itself."""

    count: int = flag(
        0,
        "--simulated-workers",
        _SIMULATED,
        "start this many simulated workers beside the gateway, whose answers are "
        "made up; for a first try without an engine",
        metavar="N",
        minimum=0,
        maximum=MAX_WORKERS,
    )
    model: str = flag(
        _UNLESS_GIVEN.model,
        "--simulated-model",
        _SIMULATED,
        "name of the model they serve",
        metavar="NAME",
    )
    ttft_ms: float = flag(
        _UNLESS_GIVEN.ttft_ms,
        "--simulated-ttft-ms",
        _SIMULATED,
        "milliseconds to the first token of an answer",
        metavar="MS",
        minimum=0,
    )
    tokens_per_second: float = flag(
        _UNLESS_GIVEN.tokens_per_second,
        "--simulated-tokens-per-second",
        _SIMULATED,
        "tokens a second of each answer after the first one; 0 = all at once",
        metavar="N",
        minimum=0,
    )

    def options(self) -> SimulatedOptions | None:
        """What to simulate, or None; no flag of the group is given for nothing."""
        if not self.model:
            raise SettingsError("--simulated-model: must not be empty")
        if self.count:
            return SimulatedOptions(
                self.count, self.model, self.ttft_ms, self.tokens_per_second
            )
        for field, described in flags_of(self):
            if getattr(self, field.name) != field.default:
                raise SettingsError(
                    f"{described.name}: has no effect without --simulated-workers N"
                )
        return None


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything a person chose for one gateway; one attribute for each room."""

    server: ServerOptions = ServerOptions()
    heads: HeadLimits = HeadLimits()
    clients: ClientTimeouts = ClientTimeouts()
    tls: TlsOptions = TlsOptions()
    upstream: UpstreamOptions = UpstreamOptions()
    routing: RoutingOptions = RoutingOptions()
    dispatch: DispatchOptions = DispatchOptions()
    aliases: AliasOptions = AliasOptions()
    fallbacks: FallbackOptions = FallbackOptions()
    cors: CorsOptions = CorsOptions()
    realtime: RealtimeOptions = RealtimeOptions()
    fleet: FleetOptions = FleetOptions()
    limiter: LimiterOptions = LimiterOptions()
    scheduler: SchedulerOptions = SchedulerOptions()
    policies: PolicyOptions = PolicyOptions()
    retries: RetryOptions = RetryOptions()
    breaker: BreakerOptions = BreakerOptions()
    overload: OverloadOptions = OverloadOptions()
    discovery: DiscoveryOptions = DiscoveryOptions()
    telemetry: TelemetryOptions = TelemetryOptions()
    keys: Keys | None = None  # None: nobody needs one
    tenant_header: str | None = None  # the header that is trusted to name the tenant
    tenant_rules: TenantRules | None = None  # None: tenants have no budgets
    simulated: SimulatedOptions | None = None
    # To be logged as warnings, one line each, as soon as there is a log.
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_metrics_host()
        self._refuse_shared_ports()
        self._follow_discovery()
        self._check_power_of_two()

    def _check_power_of_two(self) -> None:
        """It compares two workers; more than were named there are only by discovery,
        or of an engine's ranks."""
        if self.routing.policy != PowerOfTwoPolicy.name:
            return
        if self.discovery.provider or self.fleet.dp_aware:
            return
        simulated = self.simulated.count if self.simulated is not None else 0
        if len(self.server.worker_urls) + simulated < 2:
            raise SettingsError(
                "--policy: Incompatible configuration: Power-of-two policy requires at "
                "least 2 workers; name them with --worker-urls, or use another policy"
            )

    def _follow_discovery(self) -> None:
        """Who is found again need not be kept while it is down."""
        if self.fleet.remove_unhealthy_workers is None and self.discovery.provider:
            fleet = dataclasses.replace(self.fleet, remove_unhealthy_workers=True)
            object.__setattr__(self, "fleet", fleet)

    def _check_metrics_host(self) -> None:
        """The same kinds of address as for --host."""
        given = self.telemetry.prometheus_host
        if given is None:
            return
        try:
            host = parse_host(given)
        except ValueError as error:
            raise SettingsError(f"--prometheus-host: {error}") from error
        telemetry = dataclasses.replace(self.telemetry, prometheus_host=host)
        object.__setattr__(self, "telemetry", telemetry)

    def _refuse_shared_ports(self) -> None:
        ports = {
            "--port": self.server.port,
            "--prometheus-port": self.telemetry.prometheus_port,
            "--health-check-port": self.server.health_check_port,
        }
        taken: dict[int, str] = {}
        for name, port in ports.items():
            if port is None:
                continue
            if port in taken:
                raise SettingsError(
                    f"{name}: must differ from {taken[port]}, both are {port}; "
                    "each listener needs a port of its own"
                )
            taken[port] = name


# Which options class fills which attribute of Settings; "callers" fills two.
_ROOMS: dict[str, Callable[..., Any]] = {
    "server": ServerOptions,
    "simulated": SimulatedFlags,
    "upstream": UpstreamOptions,
    "routing": RoutingOptions,
    "dispatch": DispatchOptions,
    "aliases": AliasOptions,
    "fallbacks": FallbackOptions,
    "cors": CorsOptions,
    "realtime": RealtimeOptions,
    "telemetry": TelemetryOptions,
    "clients": ClientTimeouts,
    "heads": HeadLimits,
    "fleet": FleetOptions,
    "limiter": LimiterOptions,
    "scheduler": SchedulerOptions,
    "policies": PolicyOptions,
    "retries": RetryOptions,
    "breaker": BreakerOptions,
    "overload": OverloadOptions,
    "discovery": DiscoveryOptions,
    "callers": KeyOptions,
    "tenant_rules": BudgetOptions,
    "tls": TlsOptions,
}


@dataclasses.dataclass(frozen=True, eq=False)
class DeclaredFlag:
    """A flag, the attribute it sets and the type of the value, or of one of many."""

    room: str
    field: str
    kind: type
    default: Any
    flag: Flag

    @property
    def is_switch(self) -> bool:
        """Whether it stands alone, without a value behind it."""
        return self.kind is bool

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """Every name it answers to; one that begins with --no- switches it off.

        A switch that is not off by default has such a form of each of its names.
        """
        names = (self.flag.name, *self.flag.aliases)
        if not self.is_switch or self.default is False:
            return names
        offs = ("--no-" + one[2:] for one in names if not one.startswith("--no-"))
        return tuple(dict.fromkeys((*names, *offs)))


def declared_flags() -> list[DeclaredFlag]:
    """Every flag there is, room by room."""
    return [
        DeclaredFlag(room, field.name, _kind(hints[field.name]), field.default, found)
        for room, options in _ROOMS.items()
        for hints in [typing.get_type_hints(options)]
        for field, found in flags_of(options)
    ]


def _kind(annotation: Any) -> type:
    """int of ``int``, ``int | None`` and ``tuple[int, ...]``."""
    inner = [
        one for one in typing.get_args(annotation) if one not in (type(None), Ellipsis)
    ]
    kind = inner[0] if inner else annotation
    assert isinstance(kind, type), annotation
    return kind


def make_settings(
    given: Mapping[DeclaredFlag, Any],
    log_level: str | None = None,
    notices: tuple[str, ...] = (),
) -> Settings:
    """Settings of the given values, each room checked, and all of them together.

    ``log_level`` replaces what the flag says. Raises SettingsError.
    """
    values: dict[str, dict[str, Any]] = {room: {} for room in _ROOMS}
    for one, value in given.items():
        values[one.room][one.field] = value
    if log_level is not None:
        values["telemetry"]["log_level"] = log_level
    try:
        rooms = {room: make(**values[room]) for room, make in _ROOMS.items()}
        rooms["policies"].check(rooms["routing"].policy)
        rooms["fallbacks"].check(rooms["aliases"].canonical_names())
        rooms["simulated"] = rooms["simulated"].options()
        rooms["tenant_rules"] = rooms["tenant_rules"].rules()
        callers = rooms.pop("callers")
        rooms["keys"] = callers.keys()
        rooms["tenant_header"] = callers.trusted_header()
    except ValueError as error:
        # A room that checks its values against each other names the flag itself.
        raise SettingsError(str(error)) from error
    return Settings(**rooms, notices=notices)
