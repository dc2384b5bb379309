"""--cors-allowed-origins: which web pages may read the answers (WHATWG Fetch, CORS)."""

from __future__ import annotations

import dataclasses
import re

from smgproxy.api.replies import Reply
from smgproxy.core.message import Headers
from smgproxy.core.options import flag

_ANY = "*"
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+|null", re.IGNORECASE)
_METHODS = b"GET,POST,PATCH,DELETE,OPTIONS"
_REQUEST_HEADERS = (
    b"content-type,authorization,anthropic-version,anthropic-beta,"
    b"traceparent,tracestate"
)
_RESPONSE_HEADERS = b"x-request-id,traceparent,tracestate"
_MAX_AGE_SECS = b"3600"

ALLOW_ORIGIN = b"access-control-allow-origin"
EXPOSE_HEADERS = b"access-control-expose-headers"


def parse_origin(text: str) -> str:
    """One origin as browsers send it. Raises ValueError."""
    if text != _ANY and not (text.isascii() and _ORIGIN.fullmatch(text)):
        raise ValueError(
            f"must be an origin such as https://app.example.com, or *, "
            f"not {ascii(text[:100])}"
        )
    return text


@dataclasses.dataclass(frozen=True)
class CorsOptions:
    """Origins whose pages may call the gateway."""

    cors_allowed_origins: tuple[str, ...] = flag(
        (),
        "--cors-allowed-origins",
        "Request Handling",
        "origins whose web pages may call the gateway, compared exactly; * alone = "
        "any; none = no CORS headers at all",
        metavar="ORIGIN",
        is_list=True,
        parse=parse_origin,
    )

    def __post_init__(self) -> None:
        if _ANY in self.cors_allowed_origins and len(self.cors_allowed_origins) > 1:
            raise ValueError(
                "--cors-allowed-origins: * must stand alone; give either * or a list "
                "of origins"
            )

    def rules(self, exposed: tuple[bytes, ...] = ()) -> Cors | None:
        """What pages are told; None when none may call. ``exposed``: as in Cors."""
        return Cors(self, exposed) if self.cors_allowed_origins else None


class Cors:
    """The answers to preflights and the header fields of all other answers."""

    # What a worker said about the same is not relayed.
    REPLACED = frozenset((ALLOW_ORIGIN, EXPOSE_HEADERS))

    __slots__ = ("_origins", "_is_any", "_exposed")

    def __init__(self, options: CorsOptions, exposed: tuple[bytes, ...] = ()) -> None:
        """``exposed``: further header fields that pages may read."""
        self._origins = {one.encode() for one in options.cors_allowed_origins}
        self._is_any = _ANY.encode() in self._origins
        self._exposed = b",".join((_RESPONSE_HEADERS, *exposed))

    def headers(self, origin: bytes | None) -> Headers:
        """What is said on an ordinary answer to ``origin``."""
        exposed = b"*" if self._is_any else self._exposed
        return [*self._allowed(origin), (EXPOSE_HEADERS, exposed)]

    def preflight(self, origin: bytes | None) -> Reply:
        """What an OPTIONS request to any path is answered."""
        fields = [
            *self._allowed(origin),
            (b"access-control-allow-methods", b"*" if self._is_any else _METHODS),
            (
                b"access-control-allow-headers",
                b"*" if self._is_any else _REQUEST_HEADERS,
            ),
            (b"access-control-max-age", _MAX_AGE_SECS),
        ]
        return Reply(200, b"", headers=fields)

    def _allowed(self, origin: bytes | None) -> Headers:
        if self._is_any:
            return [(ALLOW_ORIGIN, b"*")]
        fields: Headers = [(b"vary", b"origin")]
        if origin is not None and origin in self._origins:
            fields.append((ALLOW_ORIGIN, origin))
        return fields
