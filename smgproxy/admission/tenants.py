"""Who calls: whether the credential suffices, and which tenant the request is of.

A tenant key is ``auth:<id>`` (a key identified the caller), ``header:<value>`` (a proxy
that is trusted says so), ``ip:<address>`` or ``anonymous``; the first that applies.
"""

from __future__ import annotations

import re

from smgproxy.admission.keys import Keys
from smgproxy.core.access import Access
from smgproxy.core.message import RequestHead

ANONYMOUS = "anonymous"
# Visible ASCII and blanks inside; what else a header holds counts as absent.
_HEADER_VALUE = re.compile(rb"[!-~](?:[ -~]{0,126}[!-~])?")


class Caller:
    """Who a request is from.

    ``tenant`` is "" on public routes, which ask nobody. ``has_gateway_key``: the
    Authorization header holds a key of this gateway (ruling 23).
    """

    __slots__ = ("tenant", "has_gateway_key")

    def __init__(self, tenant: str, has_gateway_key: bool = False) -> None:
        self.tenant = tenant
        self.has_gateway_key = has_gateway_key


_NOBODY = Caller("")


class Callers:
    """Identifies the caller of each request."""

    __slots__ = ("_keys", "_header")

    def __init__(
        self, keys: Keys | None = None, tenant_header: str | None = None
    ) -> None:
        """``tenant_header`` is the lower-case name of the header to trust, if any."""
        self._keys = Keys() if keys is None else keys
        self._header = None if tenant_header is None else tenant_header.encode()

    def identify(self, access: Access, head: RequestHead, peer: str) -> Caller:
        """The caller of a request on a route. Raises Unauthorized, AdminRequired.

        ``peer`` is the address of the connection's other end, "" when it has none;
        X-Forwarded-For counts for nothing, because anybody may send it.
        """
        if access is Access.PUBLIC:
            return _NOBODY
        holder = self._keys.check(access, head.first.get(b"authorization"))
        if holder is not None and holder.tenant:
            return Caller(holder.tenant, True)
        return Caller(self._unkeyed(head, peer), holder is not None)

    def _unkeyed(self, head: RequestHead, peer: str) -> str:
        if self._header is not None:
            value = head.first.get(self._header)
            if value and _HEADER_VALUE.fullmatch(value):
                return "header:" + value.decode("ascii")
        return f"ip:{peer}" if peer else ANONYMOUS
