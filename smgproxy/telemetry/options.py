"""What a user may tune about metrics and logs."""

from __future__ import annotations

import dataclasses
import math

from smgproxy.core.options import flag

_METRICS = "Prometheus Metrics"
_LOGGING = "Logging"


def _bound(text: str) -> float:
    """One bucket bound, in seconds."""
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise ValueError("must be a positive number of seconds")
    return value


@dataclasses.dataclass(frozen=True)
class TelemetryOptions:
    """Where metrics are served and how the gateway writes its logs."""

    prometheus_port: int = flag(
        29000,
        "--prometheus-port",
        _METRICS,
        "port of the /metrics listener",
        minimum=1,
        maximum=65535,
    )
    prometheus_host: str | None = flag(
        None,
        "--prometheus-host",
        _METRICS,
        "address of the /metrics listener (default: every address of --host's family)",
    )
    prometheus_duration_buckets: tuple[float, ...] = flag(
        (),
        "--prometheus-duration-buckets",
        _METRICS,
        "bounds in seconds of every duration histogram, rising (default: 0.001 "
        "to 7200)",
        metavar="SECS",
        is_list=True,
        parse=_bound,
    )
    log_level: str = flag(
        "info",
        "--log-level",
        _LOGGING,
        "least severe level that is written",
        choices=("debug", "info", "warn", "error"),
    )
    log_json: bool = flag(
        False, "--log-json", _LOGGING, "write one JSON object per log line"
    )
    log_dir: str | None = flag(
        None,
        "--log-dir",
        _LOGGING,
        "folder of daily files smg.YYYY-MM-DD (days of UTC), written beside standard "
        "error; made if it is missing (default: standard error only)",
    )

    def __post_init__(self) -> None:
        bounds = self.prometheus_duration_buckets
        for lower, upper in zip(bounds, bounds[1:]):
            if upper <= lower:
                raise ValueError(
                    "--prometheus-duration-buckets must rise from value to value, "
                    f"but {upper:g} follows {lower:g}"
                )
