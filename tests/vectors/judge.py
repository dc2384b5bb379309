"""Whether a body that reached a worker is what a vector asks for.

A gateway may forward the client's own bytes wherever no rule changes them, or rebuild
the body as the original does. Both satisfy the contract, so the comparison ignores
exactly what README.md lists as noise of the rebuild: inserted defaults, dropped nulls,
unmodelled keys that were dropped, 32-bit rounding, and the spelling of `reasoning`,
`functions` and `function_call`. Everything else, a profile's rewrites above all, must
be there.
"""

from __future__ import annotations

import base64
import json
import struct
from decimal import Decimal
from typing import Any

INSERTED: dict[str, Any] = {  # written by the original although the client did not
    **{"logprobs": False, "stream": False, "echo": False, "store": None},
    **{"priority": None, "background": False, "log_metrics": True, "no_logs": False},
    **{"return_hidden_states": False, "return_bytes": False, "return_entropy": False},
    **{"return_documents": True, "rid": None, "user": None},
    **{"return_text_in_logprobs": False, "return_logprob": False},
}
# On /v1/responses only.
NEVER_COMPARED = {
    *("store", "priority", "top_k", "min_p", "repetition_penalty", "temperature"),
}


def same_body(vector: dict[str, Any], received: bytes) -> str | None:
    """None when ``received`` satisfies the vector's ``worker``, else why not."""
    worker = vector["worker"]
    if worker.get("compare") == "bytes" or "body_b64" in worker:
        if "body_b64" in worker:
            exact = base64.b64decode(worker["body_b64"])
        else:
            exact = worker["body"].encode()
        return None if received == exact else "the bytes differ"
    if worker.get("body") is None:
        return None
    try:
        sent = _load(vector["request"].get("body") or "null")
    except ValueError:
        sent = None
    request = sent if isinstance(sent, dict) else {}
    try:
        got = _tidy(_load(received.decode()), request)
    except (ValueError, UnicodeDecodeError) as error:
        return f"not JSON: {error}"
    tidy_sent = _tidy(request, request)
    reasons = []
    for text in [worker["body"], *worker.get("body_alt", [])]:
        want = _tidy(_load(text), request)
        if vector["request"]["path"].startswith("/v1/responses"):
            want = _without_uncompared(want, tidy_sent)
            got = _without_uncompared(got, tidy_sent)
        reason = _differ(got, want, tidy_sent)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons[0]


def _without_uncompared(body: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in body.items()
        if key in sent or key not in NEVER_COMPARED
    }


def _load(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _f32(number: Decimal) -> float:
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", float(number)))
        return float(rounded)
    except (OverflowError, ValueError):
        return float("inf")


def _same_number(a: Decimal, b: Decimal) -> bool:
    return a == b or _f32(a) == _f32(b)


def _tidy(x: Any, request: Any, path: tuple[str, ...] = ()) -> Any:
    """Remove the noise of a rebuild from a parsed body."""
    if isinstance(x, list):
        return [_tidy(value, None, path + ("[]",)) for value in x]
    if not isinstance(x, dict):
        return x
    x = dict(x)
    if path == ():
        _tidy_top(x, request)
    if path[:1] == ("messages",):
        if "reasoning" in x and "reasoning_content" not in x:
            x["reasoning_content"] = x.pop("reasoning")
        if x.get("role") == "system" and x.get("content") == "":
            del x["content"]
    if path and path[-1] == "function" and x.get("parameters") == {}:
        del x["parameters"]
    return {
        key: _tidy(value, None, path + (key,))
        for key, value in x.items()
        if value is not None
    }


def _tidy_top(x: dict[str, Any], request: Any) -> None:
    if "functions" in x and "tools" not in x:
        functions = x.pop("functions") or []
        x["tools"] = [{"type": "function", "function": one} for one in functions]
    if "function_call" in x and "tool_choice" not in x:
        call = x.pop("function_call")
        is_named = isinstance(call, dict)
        x["tool_choice"] = {"type": "function", "function": call} if is_named else call
    for key, default in INSERTED.items():
        if key in x and x[key] == default:
            del x[key]
    if x.get("tool_choice") in ("auto", "none"):
        del x["tool_choice"]
    if x.get("model") == "unknown" and request is not None and "model" not in request:
        del x["model"]


def _differ(got: Any, want: Any, sent: Any, path: str = "$") -> str | None:
    """The first difference; ``sent`` is the request's value at the place, or None."""
    if isinstance(got, dict) and isinstance(want, dict):
        return _objects_differ(got, want, sent if isinstance(sent, dict) else {}, path)
    if isinstance(got, list) and isinstance(want, list):
        return _lists_differ(got, want, sent, path)
    if isinstance(got, Decimal) and isinstance(want, Decimal):
        if _same_number(got, want) or (isinstance(sent, Decimal) and got == sent):
            return None
        return f"{path} is {got}, not {want}"
    if got == want:
        return None
    return f"{path} is {str(got)[:60]!r}, not {str(want)[:60]!r}"


def _objects_differ(
    got: dict[str, Any], want: dict[str, Any], sent: dict[str, Any], path: str
) -> str | None:
    for key in want:
        if key not in got:
            return f"{path}.{key} is missing"
        found = _differ(got[key], want[key], sent.get(key), f"{path}.{key}")
        if found:
            return found
    for key in got:
        if key not in want and key not in sent:
            return f"{path}.{key} was added"
    return None


def _lists_differ(got: list[Any], want: list[Any], sent: Any, path: str) -> str | None:
    if len(got) != len(want):
        return f"{path} has {len(got)} items, not {len(want)}"
    same_length = isinstance(sent, list) and len(sent) == len(want)
    for place, (one, other) in enumerate(zip(got, want, strict=True)):
        # A reordered list (MiniMax) has no fixed partner in the request: try them all
        # for kept keys.
        partners = sent if isinstance(sent, list) else [None]
        if same_length:
            first = sent[place]
            partners = [first] + [each for each in sent if each is not first]
        where = f"{path}[{place}]"
        reasons = [_differ(one, other, each, where) for each in partners]
        reasons = reasons or [_differ(one, other, None, where)]
        if all(reasons):
            return reasons[0]
    return None
