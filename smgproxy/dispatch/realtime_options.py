"""What a user may tune about realtime sessions."""

from __future__ import annotations

import dataclasses

from smgproxy.core.options import flag

_GROUP = "Realtime"


@dataclasses.dataclass(frozen=True)
class RealtimeOptions:
    """Bounds on sessions; times in whole seconds."""

    realtime_handshake_timeout_secs: int = flag(
        10,
        "--realtime-handshake-timeout-secs",
        _GROUP,
        "longest time a worker may take to accept a realtime session",
        minimum=1,
    )
    realtime_idle_timeout_secs: int = flag(
        3600,
        "--realtime-idle-timeout-secs",
        _GROUP,
        "close a realtime session in which no byte passes this long; 0 = never",
        minimum=0,
    )
    realtime_max_session_secs: int = flag(
        0,
        "--realtime-max-session-secs",
        _GROUP,
        "close a realtime session this long after it began; 0 = never",
        minimum=0,
    )
    realtime_max_message_bytes: int = flag(
        64 * 1024 * 1024,
        "--realtime-max-message-bytes",
        _GROUP,
        "largest message of a realtime session, its fragments together; 0 = any",
        minimum=0,
    )
