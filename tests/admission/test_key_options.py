"""The flags of keys, the files behind them, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from smgproxy.admission.key_options import (
    MAX_FILE_BYTES,
    KeyOptions,
    parse_control_key,
    parse_header_name,
    parse_key,
    parse_tenant_key,
)
from smgproxy.admission.keys import ControlKey, Keys, Role, Secret, TenantKey
from smgproxy.core.access import Access
from smgproxy.settings import SettingsError
from tests.test_settings import settings_of


def opens(keys: Keys | None, token: str) -> str:
    """The tenant a key identifies on a serving route."""
    assert keys is not None
    holder = keys.check(Access.SERVING, b"Bearer " + token.encode())
    assert holder is not None
    return holder.tenant


def test_no_flag_is_no_key() -> None:
    assert KeyOptions().keys() is None
    assert settings_of().keys is None


def test_key_may_hold_colons() -> None:
    assert parse_tenant_key("red:a:b::c") == TenantKey("red", Secret("a:b::c"))
    ops = ControlKey("ops", "Night shift", Role.ADMIN, Secret("a:b"))
    assert parse_control_key("ops:Night shift:admin:a:b") == ops


@pytest.mark.parametrize("text", ["", "sec ret", "sec\tret", "secrét", "x" * 1025])
def test_bad_key_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_key(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("secret", "must be TENANT_ID:KEY, such as team-red:KEY"),
        ("red:", "must be TENANT_ID:KEY, such as team-red:KEY"),
        (":secret", "the tenant id must be visible ASCII without blanks"),
        ("team red:secret", "the tenant id must be visible ASCII without blanks"),
        ("x" * 129 + ":secret", "the tenant id must have at most 128 characters"),
        ("red:sec ret", "a key must be visible ASCII without blanks"),
    ],
)
def test_tenant_keys_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_tenant_key(text)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("secret", "must be ID:NAME:ROLE:KEY, such as ops:Operations:admin:KEY"),
        ("a:b:admin", "must be ID:NAME:ROLE:KEY, such as ops:Operations:admin:KEY"),
        ("a:b:admin:", "must be ID:NAME:ROLE:KEY, such as ops:Operations:admin:KEY"),
        (":b:admin:s", "must be ID:NAME:ROLE:KEY, such as ops:Operations:admin:KEY"),
        ("a:b:root:s", "the role, third in ID:NAME:ROLE:KEY, must be admin or user"),
        ("a:b:Admin:s", "the role, third in ID:NAME:ROLE:KEY, must be admin or user"),
        ("a\x1b:b:admin:s", "the id and the name must be printable text"),
    ],
)
def test_control_keys_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_control_key(text)
    assert str(caught.value) == why


def test_header_name_is_lowered_and_checked() -> None:
    assert parse_header_name("X-Team") == "x-team"
    for text in ("", "x team", "x:team", "ü", "Authorization", "X-API-Key", "cookie"):
        with pytest.raises(ValueError):
            parse_header_name(text)


# -- files ---------------------------------------------------------------------------


def test_file_holds_one_key_a_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("\ufeff# rotated 2025-01\n\nk-new\n   k-old  \r\n#k-gone\nk#3\n")
    keys = KeyOptions(api_key_file=str(path)).keys()
    for token in ("k-new", "k-old", "k#3"):
        assert opens(keys, token).startswith("auth:")
    assert keys is not None and keys.for_workers == Secret("k-new")
    assert keys.check(Access.CONTROL, b"Bearer k-old") is not None


def test_file_of_tenant_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# teams\nred:k-1\nred:k-2\nblue:k:3\n")
    flagged = (TenantKey("green", Secret("k-4")),)
    options = KeyOptions(tenant_api_keys_file=str(path), tenant_api_key=flagged)
    keys = options.keys()
    found = [opens(keys, f"{token}") for token in ("k-1", "k-2", "k:3", "k-4")]
    assert found == ["auth:red", "auth:red", "auth:blue", "auth:green"]


def test_flag_comes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("k-file\n")
    keys = KeyOptions(api_key=Secret("k-flag"), api_key_file=str(path)).keys()
    assert keys is not None and keys.for_workers == Secret("k-flag")
    assert opens(keys, "k-file").startswith("auth:")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"ok\nsec ret\n", ":2: a key must be visible ASCII without blanks"),
        (b"ok\n\n\xff\xfe\n", ":3: a key must be visible ASCII without blanks"),
        (b"a\x00b\n", ":1: a key must be visible ASCII without blanks"),
        (b"", ": holds no key; write one, or leave --api-key-file out"),
        (b"# k\n\n", ": holds no key; write one, or leave --api-key-file out"),
        (b"k\n" * MAX_FILE_BYTES, f": is longer than {MAX_FILE_BYTES} bytes"),
    ],
)
def test_faults_of_a_file_name_it_and_the_line(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        settings_of(api_key_file=str(path))
    assert str(caught.value) == f"--api-key-file: {path}{fault}"


def test_fault_of_a_tenants_file_tells_no_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("red:k-1\nk-secret\n")
    with pytest.raises(SettingsError) as caught:
        settings_of(tenant_api_keys_file=str(path))
    assert str(caught.value) == (
        f"--tenant-api-keys-file: {path}:2: must be TENANT_ID:KEY, such as team-red:KEY"
    )


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path / "none", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(SettingsError) as caught:
            settings_of(api_key_file=str(path))
        assert str(caught.value) == (
            f"--api-key-file: cannot read {path}: {why}; it must be a file that the "
            "gateway's user may read"
        )


def test_settings_hold_no_key_that_can_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("red:k-red\n")
    settings = settings_of(api_key=Secret("k-shared"), tenant_api_keys_file=str(path))
    assert "k-shared" not in repr(settings) and "k-red" not in repr(settings)
    assert "k-shared" not in repr(KeyOptions(api_key=Secret("k-shared")))


def test_tenant_header_is_set_by_the_switch() -> None:
    assert settings_of(tenant_header_name="x-team").tenant_header is None
    assert settings_of(trust_tenant_header=True).tenant_header == "x-smg-tenant-id"
    both = settings_of(trust_tenant_header=True, tenant_header_name="x-team")
    assert both.tenant_header == "x-team"
