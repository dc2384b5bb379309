"""The manifest of file discovery: JSON that names every worker; pure.

    {"version": 1, "workers": [{"url": "http://gpu1:8000", "id": "gpu1"}, ..]}

A manifest is taken whole or not at all: what is not understood might matter.
"""

from __future__ import annotations

import msgspec

from smgproxy.fleet.discovery import (
    HASH_LABEL,
    ID_LABEL,
    MAX_WANTED,
    PROVIDER_LABEL,
    Wanted,
    digest_of,
)
from smgproxy.fleet.identity import MAX_MODEL_ID_CHARACTERS, is_model_id
from smgproxy.fleet.spec import WorkerSpec, url_fault

PROVIDER = "file"
VERSION = 1
_MAX_ID_CHARACTERS = 1024


class InvalidManifest(ValueError):
    """A manifest that is not to be used; the message says where and why."""


class _Entry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    url: str
    id: str | None = None
    worker_type: str = "regular"
    bootstrap_port: int | None = None
    model_id: str | None = None
    kv_connector: str | None = None
    kv_role: str | None = None
    kv_engine_id: str | None = None


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    workers: list[_Entry]


_DECODER = msgspec.json.Decoder(_Manifest)
_NOT_BUILT = ("bootstrap_port", "kv_connector", "kv_role", "kv_engine_id")


def parse_manifest(data: bytes, api_key: str | None) -> dict[str, Wanted]:
    """The workers of a manifest, by id, in its order. Raises InvalidManifest.

    ``api_key`` is what they are asked with: a manifest names no keys.
    """
    try:
        manifest = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidManifest(str(error)) from None
    except RecursionError:
        raise InvalidManifest("nested too deeply") from None
    if manifest.version != VERSION:
        raise InvalidManifest(
            f"version {manifest.version} is not known, only {VERSION} is"
        )
    if len(manifest.workers) > MAX_WANTED:
        raise InvalidManifest(f"more than {MAX_WANTED} workers")
    found: dict[str, Wanted] = {}
    for place, entry in enumerate(manifest.workers):
        fault = _fault(entry)
        if fault:
            raise InvalidManifest(f"workers[{place}].{fault}")
        one = _wanted(entry, api_key)
        if one.id in found:
            raise InvalidManifest(f"workers[{place}].id: another worker has it too")
        found[one.id] = one
    return found


def _fault(entry: _Entry) -> str:
    """What keeps an entry from being used; the URL is not repeated, it may hold a
    password."""
    fault = url_fault(entry.url)
    if fault:
        return f"url: {fault}"
    if entry.worker_type != "regular":
        return f"worker_type: {entry.worker_type!r} is not supported yet by smgproxy"
    for name in _NOT_BUILT:
        if getattr(entry, name) is not None:
            return f"{name}: is not supported yet by smgproxy"
    if entry.id is not None and not 0 < len(entry.id) <= _MAX_ID_CHARACTERS:
        return f"id: must have 1 to {_MAX_ID_CHARACTERS} characters"
    if entry.model_id is not None and not is_model_id(entry.model_id):
        return (
            f"model_id: must have 1 to {MAX_MODEL_ID_CHARACTERS} printable characters"
        )
    return ""


def _wanted(entry: _Entry, api_key: str | None) -> Wanted:
    key = entry.url if entry.id is None else entry.id
    digest = digest_of(msgspec.to_builtins(entry))
    labels = {PROVIDER_LABEL: PROVIDER, ID_LABEL: key, HASH_LABEL: digest}
    if entry.model_id is not None:
        labels["served_model_name"] = entry.model_id
    return Wanted(key, WorkerSpec(entry.url, api_key=api_key, labels=labels), digest)
