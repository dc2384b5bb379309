"""Where the gateway listens and whom it works for, and how these values are read."""

from __future__ import annotations

import dataclasses
import socket

from smgproxy import __version__
from smgproxy.core.options import flag
from smgproxy.fleet.fields import InvalidSpec
from smgproxy.fleet.spec import check_url

_GROUP = "Worker Configuration"
_SCHEMES = ("http", "https")
_SCHEMES_TO_COME = ("grpc", "grpcs", "ipc")
_SHOWN_CHARACTERS = 60
_SPEC_PREFIX = "Invalid value for field 'worker_url': "


class NotSupportedYet(ValueError):
    """A value of the contract that this version does not implement."""

    def __init__(self, what: str, available: str) -> None:
        super().__init__(
            f"{what} not supported yet by smgproxy {__version__}; available: "
            f"{available}"
        )


def shown(text: str) -> str:
    """What was given, fit for an error message: one line, plain ASCII, not long."""
    cut = text[:_SHOWN_CHARACTERS] + "..." * (len(text) > _SHOWN_CHARACTERS)
    is_plain = cut.isascii() and cut.isprintable() and cut and " " not in cut
    return cut if is_plain else ascii(cut)


def parse_host(text: str) -> str:
    """An IP address to listen on; an IPv6 one may come in brackets."""
    is_bracketed = text.startswith("[") and text.endswith("]")
    address = text[1:-1] if is_bracketed else text
    family = socket.AF_INET6 if is_bracketed or ":" in address else socket.AF_INET
    try:
        socket.inet_pton(family, address)
    except (OSError, ValueError) as error:
        raise ValueError(
            "must be an IP address such as 0.0.0.0, 127.0.0.1 or ::, "
            f"got {shown(text)}"
        ) from error
    return address


def parse_worker_url(text: str) -> str:
    """A worker's URL, by the rules that hold for POST /workers too.

    It is kept as given: its text is the worker's identity. Only lower-case schemes
    count (the contract's rule).
    """
    scheme, has_scheme, rest = text.partition("://")
    if has_scheme and scheme in _SCHEMES_TO_COME:
        raise NotSupportedYet(f"{scheme}:// workers are", "http://, https://")
    if not has_scheme or scheme not in _SCHEMES:
        raise ValueError(
            "must start with http:// or https:// in lower case, such as "
            f"http://127.0.0.1:8000, got {_without_password(text)}"
        )
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"must be printable ASCII, got {_without_password(text)}")
    if "@" in rest:
        raise ValueError(
            f"must not carry a user name or password, got {_without_password(text)}"
        )
    try:
        return check_url(text)
    except InvalidSpec as error:
        # The flag's name stands before it already.
        raise ValueError(str(error).removeprefix(_SPEC_PREFIX)) from error


def _without_password(url: str) -> str:
    """A refused URL, fit for an error message that ends up in a log."""
    before, at, after = url.rpartition("@")
    scheme = before.partition("://")[0] + "://" if "://" in before else ""
    return shown(f"{scheme}***@{after}" if at else url)


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Where the gateway listens, for whom it works, and how it stops."""

    host: str = flag(
        "0.0.0.0",
        "--host",
        _GROUP,
        "IP address to listen on, IPv4 or IPv6; 127.0.0.1 for this machine alone",
        metavar="ADDRESS",
        parse=parse_host,
    )
    port: int = flag(
        30000,
        "--port",
        _GROUP,
        "port to listen on",
        metavar="PORT",
        minimum=1,
        maximum=65535,
    )
    worker_urls: tuple[str, ...] = flag(
        (),
        "--worker-urls",
        _GROUP,
        "URLs of the workers to start with, as http://HOST:PORT or https://HOST:PORT; "
        "more can be added while it runs, by POST /workers",
        metavar="URL",
        is_list=True,
        parse=parse_worker_url,
    )
    health_check_port: int | None = flag(
        None,
        "--health-check-port",
        _GROUP,
        "one more port that answers /health, /liveness and /readiness only, even "
        "while the main port is busy",
        metavar="PORT",
        minimum=1,
        maximum=65535,
    )
    reuse_port: bool = flag(
        False,
        "--reuse-port",
        _GROUP,
        "share the port with other instances on this machine (SO_REUSEPORT); each "
        "needs a --prometheus-port of its own",
    )
    shutdown_grace_period_secs: int = flag(
        180,
        "--shutdown-grace-period-secs",
        "Request Handling",
        "longest time from the first signal to stop to the end, settle window "
        "included; what still runs then is cut",
        minimum=0,
    )

    def __post_init__(self) -> None:
        # A worker listed twice is one worker (contract, start-up workers).
        urls = tuple(dict.fromkeys(self.worker_urls))
        object.__setattr__(self, "worker_urls", urls)
