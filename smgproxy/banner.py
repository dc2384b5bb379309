"""What the gateway says when it is up: where it serves, for whom, how safely."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator

import ujson

from smgproxy import __version__
from smgproxy.settings import Settings

# A fleet of hundreds must not push the rest off the screen.
_WORKERS_SHOWN = 4
_PROVIDERS = {
    "file": "those that --discovery-file lists",
    "kubernetes": "the pods of Kubernetes that --selector matches",
}

_BOLD, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[33m", "\x1b[0m"
_UNSPECIFIED = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclasses.dataclass(frozen=True)
class Facts:
    """What start-up found out and no flag says."""

    simulated_urls: tuple[str, ...] = ()
    # Where clients are served when that is not --host and --port: the addresses
    # of sockets that were handed over.
    api_urls: tuple[str, ...] = ()
    # False, too, when the scheduler was asked for and the limit took its place.
    has_scheduler: bool = False


def banner(settings: Settings, facts: Facts, *, is_coloured: bool = False) -> str:
    """The text for start-up, in plain ASCII, with a line end."""
    lines = [
        _painted(f"smgproxy {__version__} is up", _BOLD, is_coloured),
        *_places(settings, facts),
        *_workers(settings, facts),
        _row("policy", settings.routing.policy),
        *_limits(settings, facts),
        *(_painted(one, _YELLOW, is_coloured) for one in _posture(settings, facts)),
        *_example(settings, facts),
    ]
    return "\n".join(lines) + "\n"


def _painted(line: str, colour: str, is_coloured: bool) -> str:
    return f"{colour}{line}{_PLAIN}" if is_coloured else line


def _row(title: str, text: str) -> str:
    return f"  {title:<9}{text}"


def _url(host: str, port: int, scheme: str = "http") -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}"


def _scheme(settings: Settings) -> str:
    return "https" if settings.tls.serves_https else "http"


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


def _metrics_host(settings: Settings) -> str:
    """Where --prometheus-host is not given: every address of --host's family."""
    is_ipv6 = ":" in settings.server.host
    return settings.telemetry.prometheus_host or ("::" if is_ipv6 else "0.0.0.0")


def _api_urls(settings: Settings, facts: Facts) -> tuple[str, ...]:
    own = _url(settings.server.host, settings.server.port, _scheme(settings))
    return facts.api_urls or (own,)


def _places(settings: Settings, facts: Facts) -> Iterator[str]:
    yield _row("API", " ".join(_api_urls(settings, facts)))
    if settings.server.health_check_port is not None:
        url = _url(settings.server.host, settings.server.health_check_port)
        yield _row("probes", f"{url} (/health, /liveness, /readiness)")
    url = _url(_metrics_host(settings), settings.telemetry.prometheus_port)
    yield _row("metrics", f"{url}/metrics")


def _workers(settings: Settings, facts: Facts) -> Iterator[str]:
    urls = [f"{url} (simulated: answers are made up)" for url in facts.simulated_urls]
    urls += settings.server.worker_urls
    more = len(urls) - _WORKERS_SHOWN
    found = _PROVIDERS.get(settings.discovery.provider or "")
    if found is not None:
        yield _row("workers", found)
    elif not urls:
        urls = ["none yet; --worker-urls names some, POST /workers adds one"]
    for index, url in enumerate(urls[:_WORKERS_SHOWN]):
        yield _row("" if index or found else "workers", url)
    if more > 0:
        yield _row("", f"and {more} more (GET /workers lists them)")


def _limits(settings: Settings, facts: Facts) -> Iterator[str]:
    """Who runs and who waits, where that is limited."""
    limits = settings.limiter
    if facts.has_scheduler:
        yield _row("limits", "priority scheduler")
    elif limits.max_concurrent_requests > 0:
        text = f"{limits.max_concurrent_requests} requests at once"
        if limits.queue_size:
            wait = f"{limits.queue_timeout_secs} s"
            text += f", {limits.queue_size} more wait for up to {wait}"
        yield _row("limits", text)


def _posture(settings: Settings, facts: Facts) -> Iterator[str]:
    """Who may do what."""
    keys = settings.keys
    planes = {
        "data plane (inference)": keys is None or keys.is_serving_open,
        "control plane (/workers, /flush_cache)": keys is None or keys.is_control_open,
        "metrics": True,
    }
    keyed = ", ".join(name for name, is_open in planes.items() if not is_open)
    asked = f"keys are asked for: {keyed}" if keyed else "no credentials are asked for"
    yield f"  SECURITY POSTURE: {asked}. Open to whoever reaches the ports:"
    yield "    " + ", ".join(name for name, is_open in planes.items() if is_open)
    if settings.tls.demands_client_certificates:
        yield "    Both planes: to clients with a certificate of --tls-client-ca-paths."
    hosts = {"--prometheus-host": _metrics_host(settings)}
    if any(list(planes.values())[:2]):
        hosts = {"--host": settings.server.host, **hosts}
    if not facts.api_urls and all(map(_is_loopback, hosts.values())):
        yield "    Only programs on this machine reach them."
        return
    yield "    Put a firewall in front, or keep them to this machine:"
    yield "    " + " ".join(f"{flag} 127.0.0.1" for flag in hosts)
    remedies = []
    if keys is None:
        remedies.append("A key for both planes: --api-key-file FILE")
    if not settings.tls.serves_https:
        remedies.append("HTTPS: --tls-cert-path FILE --tls-key-path FILE")
    if remedies:
        yield "    " + ". ".join(remedies)


def _example(settings: Settings, facts: Facts) -> Iterator[str]:
    """Two commands to copy, which work: there is a worker, and its model is known."""
    if settings.simulated is None or not facts.simulated_urls:
        return
    if settings.tls.demands_client_certificates:
        return  # whose files are not known here
    host = settings.server.host
    own = _url(_UNSPECIFIED.get(host, host), settings.server.port, _scheme(settings))
    url = f"{facts.api_urls[0] if facts.api_urls else own}/v1/chat/completions"
    chat = {
        "model": settings.simulated.model,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    is_keyed = settings.keys is not None and not settings.keys.is_serving_open
    key = ' -H "authorization: Bearer $KEY"' if is_keyed else ""
    yield "  Try it, whole and as a stream:"
    # On this machine it is known who answers, whatever name the certificate has.
    curl = "curl -k" if settings.tls.serves_https else "curl"
    for command, body in ((curl, chat), (f"{curl} -N", {**chat, "stream": True})):
        text = shlex.quote(ujson.dumps(body, escape_forward_slashes=False))
        yield f"    {command} {url} -H 'content-type: application/json'{key} \\"
        yield f"      -d {text}"
