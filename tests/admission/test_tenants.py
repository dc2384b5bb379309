"""Whose request it is: the tenant key, and the order in which it is looked for."""

from __future__ import annotations

import pytest

from smgproxy.admission.keys import ControlKey, Keys, Role, Secret, TenantKey
from smgproxy.admission.tenants import Callers
from smgproxy.core.access import Access
from smgproxy.core.errors import Unauthorized
from smgproxy.core.message import RequestHead

KEYS = Keys([Secret("k-shared")], [TenantKey("red", Secret("k-red"))])
PEER = "192.0.2.7"
HEADER = "x-smg-tenant-id"


def head(*headers: tuple[bytes, bytes]) -> RequestHead:
    return RequestHead("POST", "/generate", "", list(headers))


def tenant(callers: Callers, *headers: tuple[bytes, bytes], peer: str = PEER) -> str:
    return callers.identify(Access.SERVING, head(*headers), peer).tenant


def test_key_tells_the_tenant() -> None:
    assert tenant(Callers(KEYS), (b"authorization", b"Bearer k-red")) == "auth:red"


def test_key_beats_the_header() -> None:
    callers = Callers(KEYS, HEADER)
    found = tenant(
        callers,
        (b"x-smg-tenant-id", b"blue"),
        (b"authorization", b"Bearer k-red"),
    )
    assert found == "auth:red"


def test_header_counts_when_it_is_trusted_only() -> None:
    asserted = (b"x-smg-tenant-id", b"acme")
    assert tenant(Callers(None, HEADER), asserted) == "header:acme"
    assert tenant(Callers(None), asserted) == f"ip:{PEER}"


def test_header_can_have_another_name() -> None:
    callers = Callers(None, "x-team")
    assert tenant(callers, (b"x-team", b"acme")) == "header:acme"
    assert tenant(callers, (b"x-smg-tenant-id", b"acme")) == f"ip:{PEER}"


@pytest.mark.parametrize(
    "value", [b"a", b"team a", b"auth:red", b"x" * 128, b"~!", b"a  b"]
)
def test_header_values_that_name_a_tenant(value: bytes) -> None:
    found = tenant(Callers(None, HEADER), (b"x-smg-tenant-id", value))
    assert found == "header:" + value.decode()


@pytest.mark.parametrize(
    "value", [b"", b"x" * 129, b"caf\xc3\xa9", b"\xff", b"a\tb", b"a\x7f"]
)
def test_other_header_values_count_as_absent(value: bytes) -> None:
    found = tenant(Callers(None, HEADER), (b"x-smg-tenant-id", value))
    assert found == f"ip:{PEER}"


def test_first_of_repeated_headers_counts() -> None:
    repeated = ((b"x-smg-tenant-id", b"a"), (b"x-smg-tenant-id", b"b"))
    assert tenant(Callers(None, HEADER), *repeated) == "header:a"


@pytest.mark.parametrize(
    "ignored",
    [
        (b"x-forwarded-for", b"198.51.100.1"),
        (b"forwarded", b"for=198.51.100.1"),
        (b"authorization", b"Bearer nobody's"),
        (b"x-api-key", b"k-red"),
    ],
)
def test_address_of_the_connection_is_the_last_resort(
    ignored: tuple[bytes, bytes],
) -> None:
    assert tenant(Callers(None), ignored) == f"ip:{PEER}"


def test_no_address_is_anonymous() -> None:
    assert tenant(Callers(None), peer="") == "anonymous"


def test_public_routes_ask_nobody() -> None:
    caller = Callers(KEYS).identify(Access.PUBLIC, head(), PEER)
    assert (caller.tenant, caller.has_gateway_key) == ("", False)


def test_x_api_key_opens_nothing() -> None:
    with pytest.raises(Unauthorized):
        tenant(Callers(KEYS), (b"x-api-key", b"k-red"))


def test_first_of_repeated_credentials_counts() -> None:
    right, wrong = b"Bearer k-red", b"Bearer no"
    found = tenant(Callers(KEYS), (b"authorization", right), (b"authorization", wrong))
    assert found == "auth:red"
    with pytest.raises(Unauthorized):
        tenant(Callers(KEYS), (b"authorization", wrong), (b"authorization", right))


@pytest.mark.parametrize(
    ("credential", "is_ours"),
    [(b"Bearer k-ops", True), (b"Bearer theirs", False), (b"Basic k-ops", False)],
)
def test_gateway_key_is_known_where_none_is_asked_for(
    credential: bytes, is_ours: bool
) -> None:
    ops = ControlKey("ops", "", Role.ADMIN, Secret("k-ops"))
    caller = Callers(Keys(control=[ops])).identify(
        Access.SERVING, head((b"authorization", credential)), PEER
    )
    assert (caller.tenant, caller.has_gateway_key) == (f"ip:{PEER}", is_ours)
