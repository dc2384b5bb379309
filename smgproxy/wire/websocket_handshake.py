"""The opening handshake of a WebSocket, taken from a client and given to a worker.

Subprotocol and permessage-deflate are agreed between client and worker: what one
offers the other sees. The gateway makes a key of its own for its hop (RFC 6455
section 4), and keeps to itself the key that a browser hides among the subprotocols.
"""

from __future__ import annotations

import re

from wsproto.utilities import generate_accept_token, generate_nonce

from smgproxy.core.message import Headers, RequestHead, ResponseHead
from smgproxy.wire.http1 import TOKEN, joined

VERSION = b"13"
BROWSER_KEY = b"openai-insecure-api-key."
BROWSER_PROTOCOL = b"realtime"
_DEFLATE = b"permessage-deflate"
_MAX_PROTOCOLS = 32
_is_token = re.compile(TOKEN).fullmatch
# One offer of an extension, its parameters quoted or not; a comma ends it.
_OFFER = re.compile(rb'(?:[^",]|"[^"]*")+')


class BadHandshake(Exception):
    """A handshake that cannot be gone on with; ``reason`` is for its sender."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Offer:
    """What a client asks for.

    ``protocols`` are those a worker is offered; ``key`` is None on HTTP/2.
    """

    __slots__ = ("key", "protocols", "extensions", "has_browser_key")

    def __init__(
        self,
        key: bytes | None,
        protocols: list[bytes],
        extensions: list[bytes],
        has_browser_key: bool,
    ) -> None:
        self.key = key
        self.protocols = protocols
        self.extensions = extensions
        self.has_browser_key = has_browser_key


class Agreed:
    """What a worker took of an offer."""

    __slots__ = ("protocol", "extensions")

    def __init__(self, protocol: bytes | None, extensions: bytes | None) -> None:
        self.protocol = protocol
        self.extensions = extensions

    @property
    def has_deflate(self) -> bool:
        """Whether messages may be compressed; there is no other extension."""
        return self.extensions is not None


def browser_key(head: RequestHead) -> bytes | None:
    """The key among the subprotocols, the only place where a browser can put one."""
    if b"sec-websocket-protocol" not in head.first:
        return None
    for name in _protocols(head.headers):
        if name.startswith(BROWSER_KEY) and len(name) > len(BROWSER_KEY):
            return name[len(BROWSER_KEY) :]
    return None


def read_offer(head: RequestHead) -> Offer:
    """What a client's head asks for. Raises BadHandshake."""
    first = head.first
    if head.upgrade != b"websocket":
        raise BadHandshake("Expected a WebSocket upgrade (Connection, Upgrade)")
    if first.get(b"sec-websocket-version") != VERSION:
        raise BadHandshake("Expected Sec-WebSocket-Version: 13")
    key = first.get(b"sec-websocket-key")
    if head.is_http2:
        key = None
    elif not key:
        raise BadHandshake("Expected a Sec-WebSocket-Key")
    named = _protocols(head.headers)
    protocols = [name for name in named if not name.startswith(BROWSER_KEY)]
    if not all(map(_is_token, protocols)) or len(protocols) > _MAX_PROTOCOLS:
        raise BadHandshake("Malformed Sec-WebSocket-Protocol")
    offers = _OFFER.findall(joined(head.headers, b"sec-websocket-extensions"))
    extensions = [one.strip() for one in offers if _name_of(one) == _DEFLATE]
    return Offer(key, protocols, extensions, len(protocols) < len(named))


def request_fields(offer: Offer) -> tuple[bytes, Headers]:
    """A new key, and the fields that offer a worker what the client offered."""
    nonce = generate_nonce()
    fields = [
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", VERSION),
        (b"sec-websocket-key", nonce),
    ]
    if offer.protocols:
        fields.append((b"sec-websocket-protocol", b", ".join(offer.protocols)))
    if offer.extensions:
        fields.append((b"sec-websocket-extensions", b", ".join(offer.extensions)))
    return nonce, fields


def read_answer(offer: Offer, nonce: bytes, head: ResponseHead) -> Agreed:
    """What a worker's 101 agrees to. Raises BadHandshake (section 4.1)."""
    if head.get(b"sec-websocket-accept") != generate_accept_token(nonce):
        raise BadHandshake("wrong Sec-WebSocket-Accept")
    protocols = _protocols(head.headers)
    if len(protocols) > 1 or not set(protocols) <= set(offer.protocols):
        raise BadHandshake("a subprotocol that was not offered")
    answered = joined(head.headers, b"sec-websocket-extensions")
    extensions = _OFFER.findall(answered)
    if extensions and (
        not offer.extensions
        or len(extensions) > 1
        or _name_of(extensions[0]) != _DEFLATE
    ):
        raise BadHandshake("an extension that was not offered")
    return Agreed(protocols[0] if protocols else None, answered.strip() or None)


def answer_fields(offer: Offer, agreed: Agreed) -> Headers:
    """The fields of the answer that tell a client what was agreed."""
    fields: Headers = []
    if offer.key is not None:
        fields.append((b"sec-websocket-accept", generate_accept_token(offer.key)))
    protocol = agreed.protocol
    if protocol is None and offer.has_browser_key:
        # A browser gives up unless one of its subprotocols is chosen, and its key
        # was for the gateway; so the gateway chooses the one that names the API.
        if BROWSER_PROTOCOL in offer.protocols:
            protocol = BROWSER_PROTOCOL
    if protocol is not None:
        fields.append((b"sec-websocket-protocol", protocol))
    if agreed.extensions is not None:
        fields.append((b"sec-websocket-extensions", agreed.extensions))
    return fields


def _protocols(headers: Headers) -> list[bytes]:
    listed = joined(headers, b"sec-websocket-protocol").split(b",")
    return [name for name in (one.strip(b" \t") for one in listed) if name]


def _name_of(extension: bytes) -> bytes:
    return extension.partition(b";")[0].strip().lower()
