"""What an engine says about its load, in one form whatever it was asked for.

A report is ``{"timestamp", "version", "dp_rank_count", "loads": [entry, ..]}``, an
entry the load of one data-parallel rank; a number that was not told is 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import ujson

Report = dict[str, Any]

_COUNTS = (
    *("num_running_reqs", "num_waiting_reqs", "num_waiting_uncached_tokens"),
    *("num_total_reqs", "num_used_tokens", "max_total_num_tokens"),
)
_SHARES = ("token_usage", "gen_throughput", "cache_hit_rate", "utilization")
_MEMORY = ("weight_gb", "kv_cache_gb", "graph_gb")
_QUEUES = ("waiting", "grammar", "paused", "retracted")
_MAX_RANKS = 1024
_MAX_TEXT = 128

# The gauges that tell a load, and what they tell; the older name of one comes last.
_GAUGES = {
    "num_requests_running": "num_running_reqs",
    "num_requests_waiting": "num_waiting_reqs",
    "kv_cache_usage_perc": "token_usage",
    "gpu_cache_usage_perc": "token_usage",
    "num_running_reqs": "num_running_reqs",
    "num_queue_reqs": "num_waiting_reqs",
    "token_usage": "token_usage",
    "gen_throughput": "gen_throughput",
    "cache_hit_rate": "cache_hit_rate",
}
_SUMMED = ("num_running_reqs", "num_waiting_reqs", "gen_throughput")
_SAMPLE = re.compile(
    rb"^(?:vllm:|sglang[:_])("
    + "|".join(_GAUGES).encode()
    + rb")(?:\{[^\n]*\})?[ \t]+([^\s]+)",
    re.MULTILINE,
)


def from_loads(body: bytes) -> Report | None:
    """The report in a /loads or /v1/loads answer; None when it is none."""
    try:
        told = ujson.loads(body)
    except ValueError:
        return None
    loads = told.get("loads") if isinstance(told, dict) else None
    if not isinstance(loads, list) or not loads:
        return None
    ranks = [_entry(each) for each in loads[:_MAX_RANKS] if isinstance(each, dict)]
    return {
        "timestamp": _text(told.get("timestamp")),
        "version": _text(told.get("version")),
        "dp_rank_count": _count(told.get("dp_rank_count")) or len(ranks),
        "loads": ranks,
    }


def from_metrics(body: bytes) -> Report | None:
    """The report in an engine's metrics page; None without the KV cache's gauge."""
    samples: dict[str, list[float]] = {}
    for name, text in _SAMPLE.findall(body):
        try:
            value = float(text)
        except ValueError:
            continue
        if math.isfinite(value):
            samples.setdefault(name.decode(), []).append(value)
    told: dict[str, float] = {}
    for name, field in _GAUGES.items():
        values = samples.get(name)
        if values and field not in told:
            total = sum(values)
            told[field] = total if field in _SUMMED else total / len(values)
    if "token_usage" not in told:
        return None
    entry = _entry(told)
    return {"timestamp": "", "version": "", "dp_rank_count": 1, "loads": [entry]}


def of_rank(report: Report, rank: int) -> Report | None:
    """One rank's share of its engine's report; None when it is not in there."""
    loads = [entry for entry in report["loads"] if entry["dp_rank"] == rank]
    return {**report, "dp_rank_count": 1, "loads": loads} if loads else None


def _entry(told: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"dp_rank": _count(told.get("dp_rank"))}
    entry.update({name: _count(told.get(name)) for name in _COUNTS})
    entry.update({name: _share(told.get(name)) for name in _SHARES})
    entry["max_running_requests"] = _count(told.get("max_running_requests"))
    memory, queues = told.get("memory"), told.get("queues")
    if isinstance(memory, dict):
        entry["memory"] = {name: _share(memory.get(name)) for name in _MEMORY}
        entry["memory"]["token_capacity"] = _count(memory.get("token_capacity"))
    if isinstance(queues, dict):
        entry["queues"] = {name: _count(queues.get(name)) for name in _QUEUES}
    return entry


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _count(value: Any) -> int:
    # Bounded, so that whatever an engine says can be written out again.
    return int(min(max(_share(value), 0), 1 << 53))


def _text(value: Any) -> str:
    is_fit = isinstance(value, str) and value.isprintable()
    return value[:_MAX_TEXT] if is_fit else ""
