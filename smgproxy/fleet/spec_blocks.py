"""The blocks of a worker spec: read from JSON, and turned into settings.

A block is kept as it was given, so that GET /workers can show it again; what it leaves
open is as the gateway's flags have it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.fields import Fields, InvalidSpec, misfit
from smgproxy.fleet.identity import (
    DEFAULT_MODEL_TYPE,
    MAX_MODEL_ID_CHARACTERS,
    is_model_id,
)
from smgproxy.fleet.overload import OverloadLimits

BLOCKS = ("health", "overload", "http_pool", "resilience")
# What a worker with one limit of its own has for the other while the gateway has none.
_NO_LIMITS = OverloadLimits(waiting_requests=2**63 - 1, token_usage=math.inf)
# The list of a ``resilience`` block, and the breaker's setting that it replaces.
_STATUS_LISTS = {
    "retryable_status_codes": "failure_status_codes",
    "capacity_status_codes": "capacity_status_codes",
}


def health(block: Fields | None) -> dict[str, Any] | None:
    """``health``: how it is probed, and how it leaves."""
    if block is None:
        return None
    counts = (
        *("timeout_secs", "check_interval_secs"),
        *("success_threshold", "failure_threshold"),
    )
    return _given(
        {name: block.integer(name, minimum=1, bits=32) for name in counts}
        | {
            "disable_health_check": block.flag("disable_health_check"),
            "drain_settle_secs": block.integer("drain_settle_secs", bits=32),
        }
    )


def overload(block: Fields | None) -> dict[str, Any] | None:
    """``overload``: the limits above which it gets no new requests, not yet checked."""
    if block is None:
        return None
    return _given(
        {
            "waiting_requests": block.integer("waiting_requests"),
            "token_usage": block.number("token_usage"),
        }
    )


def overload_limits(
    block: Mapping[str, Any], gateway: OverloadLimits | None
) -> OverloadLimits:
    """The limits of an ``overload`` block. Raises InvalidSpec when out of range."""
    if block.get("waiting_requests") == 0:
        raise InvalidSpec(
            "Invalid value for field 'overload.waiting_requests': 0 - "
            "Must be >= 1 (0 would mark every worker overloaded)"
        )
    usage = block.get("token_usage", 1.0)
    if not 0 < usage <= 1:
        raise InvalidSpec(
            f"Invalid value for field 'overload.token_usage': {usage:g} - "
            "Must be a fraction in (0.0, 1.0]"
        )
    return dataclasses.replace(gateway or _NO_LIMITS, **block)


def resilience(block: Fields | None) -> dict[str, Any] | None:
    """``resilience``: the worker's circuit breaker. Its retry fields mean nothing,
    ``cb_window_secs`` neither (contract)."""
    if block is None:
        return None
    counts = (
        *("cb_failure_threshold", "cb_success_threshold"),
        *("cb_timeout_secs", "cb_window_secs"),
    )
    return _given(
        {name: block.integer(name, minimum=1, bits=32) for name in counts}
        | {name: block.integers(name, bits=16) for name in _STATUS_LISTS}
    )


def breaker_settings(
    block: Mapping[str, Any], gateway: BreakerSettings
) -> BreakerSettings:
    """The breaker of a worker with this ``resilience`` block."""
    changes: dict[str, Any] = {
        name.removeprefix("cb_"): block[name]
        for name in ("cb_failure_threshold", "cb_success_threshold", "cb_timeout_secs")
        if name in block
    }
    for name, setting in _STATUS_LISTS.items():
        if name in block:
            changes[setting] = frozenset(block[name])
    return dataclasses.replace(gateway, **changes)


def http_pool(block: Fields | None) -> dict[str, Any] | None:
    """``http_pool``: the connections to it."""
    if block is None:
        return None
    return _given(
        {
            "http2": block.flag("http2"),
            "pool_max_idle_per_host": block.integer("pool_max_idle_per_host", bits=32),
            "pool_idle_timeout_secs": block.integer("pool_idle_timeout_secs", bits=32),
            "timeout_secs": block.integer("timeout_secs", 1, bits=32),
            "connect_timeout_secs": block.integer("connect_timeout_secs", 1, bits=32),
        }
    )


def card(given: Any, place: int) -> dict[str, Any]:
    """A model card, its fields in the order GET /workers shows them."""
    path = f"models[{place}]"
    card = Fields(given, path)
    model = card.required_text("id")
    _check_model_id(f"{path}.id", model)
    aliases = card.texts("aliases")
    for at, alias in enumerate(aliases or ()):
        _check_model_id(f"{path}.aliases[{at}]", alias)
    return _given(
        {
            "id": model,
            "display_name": card.text("display_name"),
            "aliases": aliases,
            "model_type": card.texts("model_type") or list(DEFAULT_MODEL_TYPE),
            "hf_model_type": card.text("hf_model_type"),
            "architectures": card.texts("architectures"),
            "provider": card.text("provider"),
            "context_length": card.integer("context_length", bits=32),
            "tokenizer_path": card.text("tokenizer_path"),
            "chat_template": card.text("chat_template"),
            "reasoning_parser": card.text("reasoning_parser"),
            "tool_parser": card.text("tool_parser"),
            "metadata": card.raw("metadata"),
            "id2label": card.text_map("id2label"),
            "num_labels": card.integer("num_labels", bits=32),
        }
    )


def _check_model_id(path: str, model: str) -> None:
    if not is_model_id(model):
        # The text is not repeated: it is what could not be shown.
        raise misfit(
            f"{path}: invalid value: expected a model id of 1 to "
            f"{MAX_MODEL_ID_CHARACTERS} printable characters"
        )


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
