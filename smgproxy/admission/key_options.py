"""The flags about keys and tenants, and the files that keys may stand in.

A file keeps keys out of the process list. It holds one key (or ``id:key``) a line;
blank lines, and lines that begin with ``#``, are skipped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TypeVar

from smgproxy.admission.keys import (
    MAX_KEY_BYTES,
    ControlKey,
    Keys,
    Role,
    Secret,
    TenantKey,
)
from smgproxy.core.options import flag

MAX_FILE_BYTES = 1024 * 1024
MAX_TENANT_ID_CHARACTERS = 128

_CONTROL = "Control Plane Authentication"
_DATA = "Data Plane Authentication"
_REQUESTS = "Request Handling"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Their values are secrets, which a tenant key, shown in logs and metrics, is not.
_CREDENTIAL_HEADERS = ("authorization", "cookie", "x-api-key", "x-goog-api-key")
_Entry = TypeVar("_Entry")


def parse_key(text: str) -> Secret:
    """A key as it stands in a header. Raises ValueError, without the key."""
    if not text:
        raise ValueError("must not be empty; leave the flag out to need no key")
    if not all("!" <= letter <= "~" for letter in text):
        raise ValueError("a key must be visible ASCII without blanks")
    if len(text) > MAX_KEY_BYTES:
        raise ValueError(f"a key must have at most {MAX_KEY_BYTES} characters")
    return Secret(text)


def parse_tenant_key(text: str) -> TenantKey:
    """``TENANT_ID:KEY``; the key may hold colons. Raises ValueError, without it."""
    tenant_id, colon, key = text.partition(":")
    if not colon or not key:
        raise ValueError("must be TENANT_ID:KEY, such as team-red:KEY")
    if not tenant_id or not all("!" <= letter <= "~" for letter in tenant_id):
        raise ValueError("the tenant id must be visible ASCII without blanks")
    if len(tenant_id) > MAX_TENANT_ID_CHARACTERS:
        raise ValueError(
            f"the tenant id must have at most {MAX_TENANT_ID_CHARACTERS} characters"
        )
    return TenantKey(tenant_id, parse_key(key))


def parse_control_key(text: str) -> ControlKey:
    """``ID:NAME:ROLE:KEY``; the key may hold colons. Raises ValueError, without it."""
    parts = text.split(":", 3)
    if len(parts) < 4 or not parts[0] or not parts[3]:
        raise ValueError("must be ID:NAME:ROLE:KEY, such as ops:Operations:admin:KEY")
    key_id, name, role, key = parts
    if not (key_id + name).isprintable():
        raise ValueError("the id and the name must be printable text")
    if role not in ("admin", "user"):
        raise ValueError("the role, third in ID:NAME:ROLE:KEY, must be admin or user")
    return ControlKey(key_id, name, Role(role), parse_key(key))


def parse_header_name(text: str) -> str:
    """A header's name, in lower case."""
    if _HEADER_NAME.fullmatch(text) is None:
        raise ValueError("must be the name of a header, such as x-smg-tenant-id")
    if text.lower() in _CREDENTIAL_HEADERS:
        raise ValueError("must not be a header that carries a credential")
    return text.lower()


@dataclasses.dataclass(frozen=True)
class KeyOptions:
    """Who may call, and how a caller's tenant is told."""

    api_key: Secret | None = flag(
        None,
        "--api-key",
        _CONTROL,
        "key that clients send as Authorization: Bearer KEY; opens the serving routes, "
        "and the control plane unless that has keys of its own; start-up workers are "
        "asked with it. It can be seen in the process list: prefer --api-key-file",
        metavar="KEY",
        parse=parse_key,
    )
    api_key_file: str | None = flag(
        None,
        "--api-key-file",
        _CONTROL,
        "file of such keys, one a line, # begins a comment line; the first is the one "
        "for start-up workers",
        metavar="FILE",
    )
    control_plane_api_keys: tuple[ControlKey, ...] = flag(
        (),
        "--control-plane-api-keys",
        _CONTROL,
        "keys of the control plane, role admin or user; with any of them the shared "
        "key no longer opens it, and only admin does",
        metavar="ID:NAME:ROLE:KEY",
        is_list=True,
        parse=parse_control_key,
    )
    tenant_api_key: tuple[TenantKey, ...] = flag(
        (),
        "--tenant-api-key",
        _DATA,
        "key of one tenant for the serving routes; a tenant may have several",
        metavar="TENANT_ID:KEY",
        is_list=True,
        parse=parse_tenant_key,
    )
    tenant_api_keys_file: str | None = flag(
        None,
        "--tenant-api-keys-file",
        _DATA,
        "file of such keys, one TENANT_ID:KEY a line, # begins a comment line",
        metavar="FILE",
    )
    trust_tenant_header: bool = flag(
        False,
        "--trust-tenant-header",
        _REQUESTS,
        "take a caller's tenant from a header when no key tells it; only behind a "
        "proxy that sets or removes that header",
    )
    tenant_header_name: str = flag(
        "x-smg-tenant-id",
        "--tenant-header-name",
        _REQUESTS,
        "name of that header",
        metavar="NAME",
        parse=parse_header_name,
    )

    def keys(self) -> Keys | None:
        """Every key given, those of the files read now; None when there is none.

        Raises ValueError.
        """
        shared = [] if self.api_key is None else [self.api_key]
        if self.api_key_file is not None:
            shared += _read("--api-key-file", self.api_key_file, parse_key)
        tenants = list(self.tenant_api_key)
        if self.tenant_api_keys_file is not None:
            path = self.tenant_api_keys_file
            tenants += _read("--tenant-api-keys-file", path, parse_tenant_key)
        control = self.control_plane_api_keys
        if not (shared or tenants or control):
            return None
        return Keys(shared, tenants, control)

    def trusted_header(self) -> str | None:
        """The header that names the tenant, if one is trusted to."""
        return self.tenant_header_name if self.trust_tenant_header else None


def _read(name: str, path: str, parse: Callable[[str], _Entry]) -> list[_Entry]:
    """The entries of a key file. Raises ValueError, which tells no line's text."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise ValueError(
            f"{name}: cannot read {path}: {why}; it must be a file that the gateway's "
            "user may read"
        ) from None
    if len(raw) > MAX_FILE_BYTES:
        raise ValueError(f"{name}: {path}: is longer than {MAX_FILE_BYTES} bytes")
    entries = []
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        text = line.strip().decode("ascii", "replace")
        if not text or text.startswith("#"):
            continue
        try:
            entries.append(parse(text))
        except ValueError as error:
            raise ValueError(f"{name}: {path}:{number}: {error}") from None
    if not entries:
        raise ValueError(
            f"{name}: {path}: holds no key; write one, or leave {name} out"
        )
    return entries
