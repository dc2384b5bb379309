"""Which key opens which route, how it is read, and that it is shown nowhere."""

from __future__ import annotations

import hmac
from collections.abc import Iterator

import pytest

from smgproxy.admission import keys as keys_module
from smgproxy.admission.keys import (
    MAX_KEY_BYTES,
    MAX_KEYS,
    ControlKey,
    Holder,
    Keyring,
    Keys,
    Role,
    Secret,
    TenantKey,
    bearer_token,
)
from smgproxy.core.access import Access
from smgproxy.core.errors import AdminRequired, Unauthorized

SHARED, RED, BLUE = Secret("k-shared"), Secret("k-red"), Secret("k-blue")
ADMIN, USER = Secret("k-admin"), Secret("k-user")
TENANTS = (TenantKey("red", RED), TenantKey("blue", BLUE))
CONTROL = (
    ControlKey("ops", "Operations", Role.ADMIN, ADMIN),
    ControlKey("eye", "Viewer", Role.USER, USER),
)
EVERY_KEY = (SHARED, RED, BLUE, ADMIN, USER)

# What is configured, then who gets in: on serving routes, on the control plane.
TABLE = [
    (Keys(), {None, *EVERY_KEY}, {None, *EVERY_KEY}),
    (Keys([SHARED]), {SHARED}, {SHARED}),
    (Keys(tenants=TENANTS), {RED, BLUE}, set()),
    (Keys([SHARED], TENANTS), {SHARED, RED, BLUE}, {SHARED}),
    (Keys(control=CONTROL), {None, *EVERY_KEY}, {ADMIN}),
    (Keys([SHARED], TENANTS, CONTROL), {SHARED, RED, BLUE}, {ADMIN}),
]


def bearer(key: Secret | None) -> bytes | None:
    return None if key is None else b"Bearer " + key.text.encode()


def gets_in(keys: Keys, access: Access, key: Secret | None) -> bool:
    try:
        keys.check(access, bearer(key))
    except (Unauthorized, AdminRequired):
        return False
    return True


@pytest.mark.parametrize(("keys", "serving", "control"), TABLE)
def test_table_of_the_contract(
    keys: Keys, serving: set[Secret | None], control: set[Secret | None]
) -> None:
    asked = (None, *EVERY_KEY)
    assert {key for key in asked if gets_in(keys, Access.SERVING, key)} == serving
    assert {key for key in asked if gets_in(keys, Access.CONTROL, key)} == control


@pytest.mark.parametrize(("keys", "serving", "control"), TABLE)
def test_what_is_open_is_what_takes_no_key(
    keys: Keys, serving: set[Secret | None], control: set[Secret | None]
) -> None:
    assert keys.is_serving_open == (None in serving)
    assert keys.is_control_open == (None in control)


def challenge(keys: Keys, access: Access, authorization: bytes | None) -> bytes:
    with pytest.raises(Unauthorized) as caught:
        keys.check(access, authorization)
    [(name, value)] = caught.value.headers
    assert name == b"www-authenticate"
    assert (caught.value.status, caught.value.message) == (401, "")
    return value


def test_missing_and_wrong_keys_are_told_apart_by_the_challenge_alone() -> None:
    keys = Keys([SHARED], TENANTS)
    missing = challenge(keys, Access.SERVING, None)
    assert missing == b'Bearer realm="data-plane"'
    wrong = challenge(keys, Access.SERVING, b"Bearer nope")
    assert wrong == b'Bearer realm="data-plane", error="invalid_token"'


def test_tenant_key_on_an_admin_route_is_a_wrong_one() -> None:
    wrong = challenge(Keys(tenants=TENANTS), Access.CONTROL, bearer(RED))
    assert wrong == b'Bearer realm="data-plane", error="invalid_token"'


def test_control_plane_has_a_realm_of_its_own() -> None:
    keys = Keys([SHARED], control=CONTROL)
    for shown in (None, bearer(SHARED), b"Basic abc"):
        value = challenge(keys, Access.CONTROL, shown)
        assert value == b'Bearer realm="control-plane"'


def test_user_role_is_forbidden_not_unknown() -> None:
    with pytest.raises(AdminRequired) as caught:
        Keys(control=CONTROL).check(Access.CONTROL, bearer(USER))
    assert caught.value.status == 403


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (None, None),
        (b"", None),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Bearer \t ", None),
        (b"k", None),
        (b"Basic k", None),
        (b"Bearerk", None),
        (b"Bearer: k", None),
        (b"Bearer k", b"k"),
        (b"bearer k", b"k"),
        (b"BEARER k", b"k"),
        (b"Bearer    k", b"k"),
        (b"Bearer\tk", b"k"),
        (b"Bearer a b", b"a b"),
        (b"Bearer \xff\xfe", b"\xff\xfe"),
        (b"Bearer k:l==", b"k:l=="),
    ],
)
def test_bearer_token(value: bytes | None, token: bytes | None) -> None:
    assert bearer_token(value) == token


@pytest.mark.parametrize(
    "token",
    [
        *(b"k-share", b"k-shared2", b"K-SHARED", b"k-shared,k-red", b"k-shared k"),
        *(b"\xff" * 20, "k-sharéd".encode(), b"\x80", b"k-shared\x00"),
        *(b"x" * (MAX_KEY_BYTES + 1), b"x" * 60_000),
    ],
)
def test_near_misses_odd_bytes_and_long_tokens_do_not_pass(token: bytes) -> None:
    keys = Keys([SHARED], TENANTS, CONTROL)
    for access in (Access.SERVING, Access.CONTROL):
        with pytest.raises(Unauthorized):
            keys.check(access, b"Bearer " + token)


def test_longest_key_passes() -> None:
    longest = Secret("x" * MAX_KEY_BYTES)
    assert gets_in(Keys([longest]), Access.SERVING, longest)


def test_token_that_cannot_be_a_key_is_not_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = Keys([SHARED])

    def refuse(token: bytes) -> bytes:
        raise AssertionError("hashed")

    monkeypatch.setattr(keys_module, "digest_of", refuse)
    with pytest.raises(Unauthorized):
        keys.check(Access.SERVING, b"Bearer " + b"x" * (MAX_KEY_BYTES + 1))


def test_holder_of_a_key() -> None:
    keys = Keys([SHARED], TENANTS, CONTROL)

    def tenant(key: Secret) -> str:
        holder = keys.check(Access.SERVING, bearer(key))
        assert holder is not None
        return holder.tenant

    assert tenant(RED) == "auth:red"
    assert tenant(BLUE) == "auth:blue"
    # printf k-shared | sha256sum
    digest = "55959a248894375f947bda3c982ad9bf17e51bf1e28c24f95f716412af7cb74a"
    assert tenant(SHARED) == "auth:" + digest


def test_control_key_on_an_open_serving_route_is_known_as_ours() -> None:
    holder = Keys(control=CONTROL).check(Access.SERVING, bearer(USER))
    assert holder == Holder(role=Role.USER)
    assert Keys(control=CONTROL).check(Access.SERVING, b"Bearer theirs") is None


# -- comparison ----------------------------------------------------------------------


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bytes, bytes]]]:
    """Every pair that is compared, by the one function that compares."""
    pairs: list[tuple[bytes, bytes]] = []

    def noted(known: bytes, shown: bytes) -> bool:
        pairs.append((known, shown))
        return hmac.compare_digest(known, shown)

    monkeypatch.setattr(keys_module, "compare_digest", noted)
    yield pairs


@pytest.mark.parametrize("key", [SHARED, RED, BLUE, ADMIN, USER, Secret("nobody's")])
@pytest.mark.parametrize("access", [Access.SERVING, Access.CONTROL])
def test_every_key_is_compared_whichever_matches(
    compared: list[tuple[bytes, bytes]], access: Access, key: Secret
) -> None:
    keys = Keys([SHARED], TENANTS, CONTROL)
    gets_in(keys, access, key)
    assert compared == [(each.digest(), key.digest()) for each in EVERY_KEY]


def test_digests_of_one_length_are_what_is_compared(
    compared: list[tuple[bytes, bytes]],
) -> None:
    Keyring([(SHARED, Holder()), (Secret("x" * 900), Holder())]).find(SHARED.digest())
    assert {len(one) for pair in compared for one in pair} == {32}


def test_number_of_keys_is_bounded() -> None:
    most = [Secret(f"k{number}") for number in range(MAX_KEYS)]
    keys = Keys(most)
    assert gets_in(keys, Access.SERVING, most[0])
    assert gets_in(keys, Access.SERVING, most[-1])
    with pytest.raises(ValueError, match=r"1001 keys are more than 1000; let a proxy"):
        Keys(most, [TenantKey("red", RED)])


# -- one key, one meaning ------------------------------------------------------------


@pytest.mark.parametrize(
    ("shared", "tenants", "text"),
    [
        (
            [SHARED],
            [TenantKey("red", SHARED)],
            "--tenant-api-key: tenant 'red' has the same key as --api-key; "
            "give each a key of its own",
        ),
        (
            [],
            [TenantKey("red", RED), TenantKey("blue", RED)],
            "--tenant-api-key: tenant 'blue' has the same key as tenant 'red'; "
            "give each a key of its own",
        ),
        (
            [],
            [TenantKey("red", RED), TenantKey("red", RED)],
            "--tenant-api-key: tenant 'red' has the same key as tenant 'red'; "
            "give each a key of its own",
        ),
    ],
)
def test_key_of_two_callers_is_refused(
    shared: list[Secret], tenants: list[TenantKey], text: str
) -> None:
    with pytest.raises(ValueError) as caught:
        Keys(shared, tenants)
    assert str(caught.value) == text


def test_key_of_two_roles_is_refused() -> None:
    twice = ControlKey("two", "", Role.USER, ADMIN)
    with pytest.raises(ValueError, match="'two' has the same key as 'ops'"):
        Keys(control=[*CONTROL, twice])


def test_tenant_may_have_two_keys_and_a_shared_key_may_be_given_twice() -> None:
    keys = Keys([SHARED, SHARED], [TenantKey("red", RED), TenantKey("red", BLUE)])
    for key in (SHARED, RED, BLUE):
        assert gets_in(keys, Access.SERVING, key)


def test_start_up_workers_are_shown_the_first_shared_key() -> None:
    assert Keys([SHARED, RED]).for_workers == SHARED
    assert Keys(tenants=TENANTS, control=CONTROL).for_workers is None


def test_nothing_prints_a_key() -> None:
    keys = Keys([SHARED], TENANTS, CONTROL)
    ring = Keyring([(SHARED, Holder())])
    shown = " ".join(
        text
        for one in (keys, ring, SHARED, *TENANTS, *CONTROL, [SHARED], {"k": RED})
        for text in (repr(one), str(one), f"{one}", f"{one!a}")
    )
    assert not any(key.text in shown for key in EVERY_KEY)
    assert "Secret(hidden)" in shown
