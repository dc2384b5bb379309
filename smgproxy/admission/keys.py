"""Keys: which there are, and whose key a request shows.

A key is kept as its SHA-256 digest. Every look-up compares the digest shown with every
digest there is, by ``hmac.compare_digest`` and without a branch between, so the time it
takes tells neither which key matched nor how much of one was right; MAX_KEYS bounds it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest

from smgproxy.core.access import Access
from smgproxy.core.errors import AdminRequired, Unauthorized

# A comparison takes about 0.1 us: this many cost a request 0.1 ms.
MAX_KEYS = 1000
# A longer credential is no key of ours; nothing is gained by hashing it.
MAX_KEY_BYTES = 1024

_DATA_REALM, _CONTROL_REALM = b"data-plane", b"control-plane"


class Role(Enum):
    """What a control-plane key allows."""

    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, repr=False)
class Secret:
    """A key as it was configured. Nothing that prints it shows it."""

    text: str

    def __repr__(self) -> str:
        return "Secret(hidden)"

    __str__ = __repr__

    def digest(self) -> bytes:
        """What it is compared by."""
        return digest_of(self.text.encode())


@dataclass(frozen=True)
class TenantKey:
    """A serving key of one tenant; a tenant may have several, to change them."""

    tenant_id: str
    key: Secret


@dataclass(frozen=True)
class ControlKey:
    """A control-plane key. ``id`` and ``name`` are for people, and for an audit log."""

    id: str
    name: str
    role: Role
    key: Secret


@dataclass(frozen=True)
class Holder:
    """Whom a key belongs to.

    ``tenant`` is the tenant key of its requests, "" for a control-plane key.
    """

    tenant: str = ""
    is_shared: bool = False
    role: Role | None = None


def digest_of(token: bytes) -> bytes:
    """SHA-256 of a key."""
    return hashlib.sha256(token).digest()


def bearer_token(authorization: bytes | None) -> bytes | None:
    """The token of an Authorization value; None when there is none, or no Bearer.

    The scheme is read in any case, blanks after it are skipped (RFC 9110 11.1 and
    11.4). An empty token is a missing one.
    """
    if authorization is None:
        return None
    scheme, _, token = authorization.replace(b"\t", b" ").partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    return token.strip(b" ") or None


class Keyring:
    """Keys that are looked up together."""

    __slots__ = ("_digests", "_holders")

    def __init__(self, held: Iterable[tuple[Secret, Holder]]) -> None:
        held = tuple(held)
        self._digests = tuple(key.digest() for key, _ in held)
        self._holders: tuple[Holder | None, ...] = (None, *(one for _, one in held))

    def __repr__(self) -> str:
        return f"Keyring({len(self._digests)} keys)"

    def __len__(self) -> int:
        return len(self._digests)

    def find(self, digest: bytes) -> Holder | None:
        """Whose key this is. The digests differ, so the sum has one term at most."""
        place = 0
        for index, known in enumerate(self._digests, 1):
            place += index * compare_digest(known, digest)
        return self._holders[place]


class Keys:
    """Every key of one gateway, and what each opens (seed: Authentication).

    Raises ValueError, which names flags and no key, when two entries are one key or
    there are more than MAX_KEYS.
    """

    __slots__ = ("_serving", "_control", "for_workers")

    def __init__(
        self,
        shared: Iterable[Secret] = (),
        tenants: Iterable[TenantKey] = (),
        control: Iterable[ControlKey] = (),
    ) -> None:
        shared = tuple(dict.fromkeys(shared))
        tenants, control = tuple(tenants), tuple(control)
        _refuse_too_many(len(shared) + len(tenants) + len(control))
        _refuse_repeated(shared, tenants)
        _refuse_repeated_control(control)
        serving = [(key, Holder(_shared_tenant(key), True)) for key in shared]
        serving += [(one.key, Holder(f"auth:{one.tenant_id}")) for one in tenants]
        self._serving = Keyring(serving)
        self._control = Keyring((one.key, Holder(role=one.role)) for one in control)
        # What start-up workers are shown: the first shared key, as the contract's
        # --api-key is.
        self.for_workers = shared[0] if shared else None

    def __repr__(self) -> str:
        return f"Keys({len(self._serving)} serving, {len(self._control)} control)"

    @property
    def is_serving_open(self) -> bool:
        """Whether serving routes ask for no key."""
        return not len(self._serving)

    @property
    def is_control_open(self) -> bool:
        """Whether control-plane routes ask for no key."""
        return not len(self._serving) and not len(self._control)

    def check(self, access: Access, authorization: bytes | None) -> Holder | None:
        """Whose key a request shows, on a route that is not public.

        None: no key of ours, and none is asked for. Raises Unauthorized and
        AdminRequired.
        """
        token = bearer_token(authorization)
        serving = control = None
        if token is not None and len(token) <= MAX_KEY_BYTES:
            digest = digest_of(token)
            serving, control = self._serving.find(digest), self._control.find(digest)
        if access is Access.SERVING:
            if serving is None and len(self._serving):
                raise _refusal(token)
            return serving or control
        return self._check_control(token, serving, control)

    def _check_control(
        self, token: bytes | None, serving: Holder | None, control: Holder | None
    ) -> Holder | None:
        if len(self._control):
            if control is None:
                raise Unauthorized(_CONTROL_REALM)
            if control.role is not Role.ADMIN:
                raise AdminRequired()  # reads included: ruling 24
            return control
        if len(self._serving) and (serving is None or not serving.is_shared):
            raise _refusal(token)
        return serving


def _refusal(token: bytes | None) -> Unauthorized:
    return Unauthorized(_DATA_REALM, is_wrong=token is not None)


def _shared_tenant(key: Secret) -> str:
    return "auth:" + key.digest().hex()


def _refuse_too_many(count: int) -> None:
    if count > MAX_KEYS:
        raise ValueError(
            f"--api-key, --tenant-api-key, --control-plane-api-keys: {count} keys are "
            f"more than {MAX_KEYS}; let a proxy in front check them and name the "
            "tenant (--trust-tenant-header)"
        )


def _refuse_repeated(
    shared: tuple[Secret, ...], tenants: tuple[TenantKey, ...]
) -> None:
    """A key that names two callers names none."""
    owners = {key.text: "--api-key" for key in shared}
    for one in tenants:
        owner = owners.get(one.key.text)
        if owner is not None:
            raise ValueError(
                f"--tenant-api-key: tenant {one.tenant_id!a} has the same key as "
                f"{owner}; give each a key of its own"
            )
        owners[one.key.text] = f"tenant {one.tenant_id!a}"


def _refuse_repeated_control(control: tuple[ControlKey, ...]) -> None:
    """A key has one role."""
    owners: dict[str, str] = {}
    for one in control:
        owner = owners.get(one.key.text)
        if owner is not None:
            raise ValueError(
                f"--control-plane-api-keys: {one.id!a} has the same key as {owner!a}; "
                "give each a key of its own"
            )
        owners[one.key.text] = one.id
