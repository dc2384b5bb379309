"""What is counted of realtime sessions, and how the metrics page shows it."""

from __future__ import annotations

from collections.abc import Iterator

from smgproxy.telemetry.families import Family, counter, gauge

# Codes that programs make up (RFC 6455 section 7.4.2) share a label beyond these.
MAX_CODES = 64
CLIENT, WORKER, GATEWAY = "client", "worker", "gateway"


class RealtimeStats:
    """Plain counters of the sessions of one gateway."""

    __slots__ = ("open", "opened", "refused", "from_clients", "from_workers", "closes")

    def __init__(self) -> None:
        self.open = 0
        self.opened = 0
        self.refused = 0  # upgrades that a worker did not agree to
        self.from_clients = 0  # bytes of frames
        self.from_workers = 0
        self.closes: dict[tuple[str, str], int] = {}  # by who closed, and code

    def count_close(self, side: str, code: int) -> None:
        """A session ended; 1005 and 1006 as APIs show them."""
        key = (side, str(code))
        if key not in self.closes and len(self.closes) >= MAX_CODES:
            key = (side, "other")
        self.closes[key] = self.closes.get(key, 0) + 1

    def families(self) -> Iterator[Family]:
        """What the metrics page shows."""
        yield gauge("smg_realtime_sessions_open", "Sessions now", [], [((), self.open)])
        yield counter(
            "smg_realtime_sessions", "Sessions opened", [], [((), self.opened)]
        )
        yield counter(
            "smg_realtime_refused",
            "Upgrades that a worker did not agree to",
            [],
            [((), self.refused)],
        )
        sides = ((CLIENT, self.from_clients), (WORKER, self.from_workers))
        yield counter(
            "smg_realtime_bytes",
            "Bytes of frames relayed, by who sent them",
            ["from"],
            [((side,), number) for side, number in sides],
        )
        yield counter(
            "smg_realtime_closes",
            "Sessions ended, by who ended them and close code",
            ["by", "code"],
            list(self.closes.items()),
        )
