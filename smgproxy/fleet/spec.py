"""What a worker is asked to be: the JSON of POST, PUT and PATCH, as settings.

Unknown fields are ignored, as the contract has it. What the contract knows and this
version does not carry out is refused by name: nothing is accepted and then ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from smgproxy.fleet import spec_blocks
from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.fields import Fields, InvalidSpec, misfit, not_supported
from smgproxy.fleet.overload import OverloadLimits
from smgproxy.fleet.parsers import check_parsers
from smgproxy.fleet.worker import HealthSettings, HttpPoolSettings

_Number = TypeVar("_Number", int, float)

UNSPECIFIED = "unspecified"
_RUNTIMES = (
    *(UNSPECIFIED, "sglang", "vllm", "trtllm", "mlx", "tokenspeed"),
    *("generic", "external"),
)
_WORKER_TYPES = ("regular", "prefill", "decode", "encode")
_SCHEMES = ("http", "https", "grpc", "grpcs", "ipc")
_SCHEMES_BUILT = ("http", "https")
_MAX_URL_CHARACTERS = 2048
_EXTERNAL_HOSTS = (".openai.com", ".anthropic.com", ".x.ai", ".googleapis.com")
_NOT_BUILT = (
    *("dp_size", "zmq_handshake_address"),
    *("bootstrap_port", "kv_connector", "kv_engine_id"),
)


@dataclasses.dataclass(frozen=True)
class WorkerSpec:
    """A worker as it was asked for.

    The blocks ``health`` to ``resilience`` hold what was given of them; None when the
    spec had no such block. ``keeps_engine_name``: where labels name the model otherwise
    than its engine does, the engine's name is an alias.
    """

    url: str
    api_key: str | None = None
    runtime_type: str = UNSPECIFIED
    models: tuple[dict[str, Any], ...] = ()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    priority: int = 50
    cost: float = 1.0
    health: Mapping[str, Any] | None = None
    overload: Mapping[str, Any] | None = None
    http_pool: Mapping[str, Any] | None = None
    resilience: Mapping[str, Any] | None = None
    keeps_engine_name: bool = False

    def blocks(self) -> dict[str, Any]:
        """The optional blocks as GET /workers shows them again, in its order."""
        blocks = {name: getattr(self, name) for name in spec_blocks.BLOCKS}
        return {name: dict(b) for name, b in blocks.items() if b is not None}

    def health_settings(self, gateway: HealthSettings) -> HealthSettings:
        """What was asked for, the rest as the gateway has it."""
        return dataclasses.replace(gateway, **(self.health or {}))

    def pool_settings(self, gateway: HttpPoolSettings) -> HttpPoolSettings:
        """What was asked for, the rest as the gateway has it."""
        return dataclasses.replace(gateway, **(self.http_pool or {}))

    def breaker_settings(self, gateway: BreakerSettings) -> BreakerSettings:
        """What was asked for, the rest as the gateway has it."""
        return spec_blocks.breaker_settings(self.resilience or {}, gateway)

    def check_parsers(self) -> None:
        """Whether the parsers it names are known; like limits, found out by the job.

        Raises InvalidSpec.
        """
        check_parsers("labels", self.labels)
        for place, each in enumerate(self.models):
            check_parsers(f"models[{place}]", each)

    def overload_limits(self, gateway: OverloadLimits | None) -> OverloadLimits | None:
        """The limits of its own, what it leaves open as the gateway has it.

        None when it asked for none. Raises InvalidSpec for limits out of range, which
        is found out when the job runs, not by who asks for it (contract).
        """
        if self.overload is None:
            return None
        return spec_blocks.overload_limits(self.overload, gateway)


@dataclasses.dataclass(frozen=True)
class WorkerPatch:
    """The fields PATCH may change; None leaves one as it is."""

    priority: int | None = None
    cost: float | None = None
    labels: Mapping[str, str] | None = None
    api_key: str | None = None
    health: Mapping[str, Any] | None = None


def check_url(url: str) -> str:
    """The URL itself when a worker can be registered under it. Raises InvalidSpec.

    The text is kept as it is: it is the worker's identity.
    """
    fault = url_fault(url)
    if fault:
        shown = url if len(url) <= _MAX_URL_CHARACTERS else "(too long to show)"
        raise InvalidSpec(f"Invalid value for field 'worker_url': {shown} - {fault}")
    return url


def url_fault(url: str) -> str:
    """Why no worker can be registered under a URL; empty when one can."""
    if not url:
        return "URL cannot be empty"
    if len(url) > _MAX_URL_CHARACTERS:
        return f"URL is longer than {_MAX_URL_CHARACTERS} characters"
    scheme, has_scheme, rest = url.partition("://")
    if not has_scheme or scheme not in _SCHEMES:
        return (
            "URL must start with a lowercase http://, https://, grpc://, grpcs://, "
            "or ipc:// scheme"
        )
    if not rest:
        if scheme == "ipc":
            return "ipc:// worker URL must include a socket path"
        return "Invalid URL format: empty host"
    if scheme not in _SCHEMES_BUILT:
        return f"{scheme}:// workers are not supported yet by smgproxy"
    return _address_fault(url, rest)


def _address_fault(url: str, rest: str) -> str:
    if not url.isascii() or not url.isprintable() or set(url) & set(' "<>\\^`{|}'):
        return "Invalid URL format: invalid character"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "Invalid URL format: invalid port number or address"
    if not parts.hostname:
        return "Invalid URL format: empty host"
    if port == 0 or parts.netloc.endswith(":"):
        return "Invalid URL format: invalid port number"
    if "@" in parts.netloc:
        return "URL must not hold a user name or password, use the field api_key"
    if parts.path not in ("", "/") or "?" in rest or "#" in rest:
        return "URL must end behind host and port: paths are not supported yet"
    if f".{parts.hostname}".endswith(_EXTERNAL_HOSTS):
        return "external providers are not supported yet by smgproxy"
    return ""


def parse_spec(given: Any) -> WorkerSpec:
    """The spec of POST and PUT, from parsed JSON. Raises InvalidSpec."""
    fields = Fields(given)
    url = fields.required_text("url")
    worker_type = _one_of(fields, "worker_type", _WORKER_TYPES) or "regular"
    name = "runtime" if fields.has("runtime") else "runtime_type"
    runtime = _one_of(fields, name, _RUNTIMES) or UNSPECIFIED
    models = fields.items("models") or []
    spec = WorkerSpec(
        url=url,
        api_key=_api_key(fields),
        runtime_type=runtime,
        models=tuple(
            spec_blocks.card(each, place) for place, each in enumerate(models)
        ),
        labels=_labels(fields) or {},
        priority=_or(fields.integer("priority", bits=32), 50),
        cost=_or(fields.number("cost"), 1.0),
        health=spec_blocks.health(fields.block("health")),
        overload=spec_blocks.overload(fields.block("overload")),
        http_pool=spec_blocks.http_pool(fields.block("http_pool")),
        resilience=spec_blocks.resilience(fields.block("resilience")),
    )
    check_url(url)
    if worker_type != "regular":
        raise not_supported(f"Worker type '{worker_type}'")
    if runtime == "external":
        raise not_supported("Runtime type 'external'")
    for unbuilt in _NOT_BUILT:
        if fields.has(unbuilt):
            raise not_supported(f"Field '{unbuilt}'")
    return spec


def parse_patch(given: Any) -> WorkerPatch:
    """The changes of PATCH, from parsed JSON; the rest is ignored (contract)."""
    fields = Fields(given)
    return WorkerPatch(
        priority=fields.integer("priority", bits=32),
        cost=fields.number("cost"),
        labels=_labels(fields),
        api_key=_api_key(fields),
        health=spec_blocks.health(fields.block("health")),
    )


def _api_key(fields: Fields) -> str | None:
    key = fields.text("api_key")
    check_api_key(key)
    return key or None


def _labels(fields: Fields) -> dict[str, str] | None:
    labels = fields.text_map("labels")
    if labels and labels.get("realtime", "true") not in ("true", "false"):
        raise InvalidSpec(
            'Invalid value for field \'labels.realtime\': Must be "true" or "false"'
        )
    return labels


def check_api_key(key: str | None) -> None:
    """A key goes into a header line. Raises InvalidSpec, without the key."""
    if key and not all("!" <= letter <= "~" for letter in key):
        raise InvalidSpec(
            "Invalid value for field 'api_key': Must be visible ASCII without blanks"
        )


def _one_of(fields: Fields, name: str, allowed: tuple[str, ...]) -> str | None:
    value = fields.text(name)
    if value is not None and value not in allowed:
        names = ", ".join(f"`{each}`" for each in allowed)
        raise misfit(f"{name}: unknown variant `{value}`, expected one of {names}")
    return value


def _or(value: _Number | None, default: _Number) -> _Number:
    return default if value is None else value
