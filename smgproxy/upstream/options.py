"""What a user may tune about how workers are called."""

from __future__ import annotations

import dataclasses

from smgproxy.core.options import flag
from smgproxy.fleet.worker import HttpPoolSettings


@dataclasses.dataclass(frozen=True)
class UpstreamOptions:
    """How workers are called."""

    request_timeout_secs: int = flag(
        1800,
        "--request-timeout-secs",
        "Request Handling",
        "longest time a request to a worker may take, its streamed answer included",
        minimum=1,
    )
    upstream_pool_idle_timeout_secs: int = flag(
        3,
        "--upstream-pool-idle-timeout-secs",
        "Worker Configuration",
        "close a pooled worker connection idle this long; 0 = keep for ever",
        minimum=0,
    )

    upstream_http2: bool = flag(
        False,
        "--upstream-http2",
        "Worker Configuration",
        "speak HTTP/2 to workers that can, found out when they register",
    )

    def http_pool(self) -> HttpPoolSettings:
        """The settings of a worker whose spec says nothing about its connections."""
        return HttpPoolSettings(
            pool_idle_timeout_secs=self.upstream_pool_idle_timeout_secs,
            timeout_secs=self.request_timeout_secs,
            prefers_http2=self.upstream_http2,
        )
