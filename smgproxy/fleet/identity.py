"""Which engine a worker is and which model it serves, from what it told.

Pure: from the JSON of its info endpoints to an engine, labels and a model card
(contract: what a plain HTTP worker receives at registration).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ujson

from smgproxy.fleet.registry import UNKNOWN_MODEL

Facts = Mapping[str, Any] | None

_OWNERS = {"sglang": "sglang", "nvidia": "sglang", "vllm": "vllm"}
_SERVER_FIELDS = (
    *("tp_size", "dp_size", "version", "context_length", "max_running_requests"),
    *("load_balance_method", "served_model_name", "model_path", "tokenizer_path"),
    "is_embedding",
)
_MODEL_FIELDS = (
    *("model_type", "architectures", "is_generation", "has_image_understanding"),
    *("model_path", "tokenizer_path"),
)
_ID_LABELS = ("served_model_name", "model_id", "model_path")
# What a model is taken for when nobody said otherwise.
DEFAULT_MODEL_TYPE = ("chat", "completions", "responses", "tools")
# A label is for people and selectors; what is longer is no such thing.
_MAX_LABEL_CHARACTERS = 4096
# Room for a path on a disk, which engines take for a name when none was given.
MAX_MODEL_ID_CHARACTERS = 512


def is_model_id(text: str) -> bool:
    """Whether a model may be called so: what goes into routes, replies, logs and
    labels of metrics. Control characters and half surrogate pairs may not."""
    return 0 < len(text) <= MAX_MODEL_ID_CHARACTERS and text.isprintable()


def engine_by_owner(models: Facts) -> str | None:
    """The engine that /v1/models names as the first model's owner."""
    owner = first_model(models).get("owned_by")
    return _OWNERS.get(owner) if isinstance(owner, str) else None


def engine_by_endpoints(
    models: Facts, version: Facts, server_info: Facts
) -> str | None:
    """The engine by which endpoints it has; None when nothing usable was told."""
    if version is not None:
        return "vllm"
    if server_info is not None:
        return "sglang"
    return "generic" if first_model(models) else None


def first_model(models: Facts) -> Mapping[str, Any]:
    """The first entry of a /v1/models answer; the only one that counts."""
    entries = models.get("data") if models is not None else None
    first = entries[0] if isinstance(entries, list) and entries else None
    return first if isinstance(first, dict) else {}


def labels_from(
    models: Facts,
    *,
    server_info: Facts = None,
    model_info: Facts = None,
    version: Facts = None,
) -> dict[str, str]:
    """The labels a worker gets from what it told; info endpoints win over models."""
    first = first_model(models)
    found = {
        "served_model_name": first.get("id"),
        "model_path": first.get("root"),
        "max_model_len": first.get("max_model_len"),
    }
    if version is not None:
        found["version"] = version.get("version")
    for told, names in ((model_info, _MODEL_FIELDS), (server_info, _SERVER_FIELDS)):
        if told is not None:
            found.update({name: told[name] for name in names if _is_told(told, name)})
    texts = {name: _label(value) for name, value in found.items()}
    return {name: text for name, text in texts.items() if text}


def card_from(labels: Mapping[str, str]) -> dict[str, Any]:
    """The card of a model that nobody described but the worker's labels."""
    named = (labels[name] for name in _ID_LABELS if is_model_id(labels.get(name, "")))
    card: dict[str, Any] = {
        "id": next(named, UNKNOWN_MODEL),
        "model_type": list(DEFAULT_MODEL_TYPE),
    }
    if "model_type" in labels:
        card["hf_model_type"] = labels["model_type"]
    architectures = _text_list(labels.get("architectures"))
    if architectures:
        card["architectures"] = architectures
    length = labels.get("context_length") or labels.get("max_model_len", "")
    if length.isascii() and length.isdigit() and len(length) < 16:
        card["context_length"] = int(length)
    if "tokenizer_path" in labels:
        card["tokenizer_path"] = labels["tokenizer_path"]
    return card


def _is_told(told: Mapping[str, Any], name: str) -> bool:
    return _label(told.get(name)) != ""


def _label(value: Any) -> str:
    """A value as a label's text; empty for what makes no label."""
    text = ""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, float):
        text = repr(value) if math.isfinite(value) else ""
    elif isinstance(value, int | str):
        text = str(value)
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        text = ujson.dumps(value, ensure_ascii=False, escape_forward_slashes=False)
    # Half a surrogate pair could not even be written out again.
    is_fit = len(text) <= _MAX_LABEL_CHARACTERS and text.isprintable()
    return text if is_fit else ""


def _text_list(text: str | None) -> list[str]:
    try:
        value = ujson.loads(text or "[]")
    except ValueError:
        return []
    is_texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return value if is_texts else []
