"""Which vectors need a capability that is not there yet, and which are not followed.

A vector named here is a strict expected failure: whoever brings a capability removes
its entry, and a vector that holds without it must not stand here.
"""

from __future__ import annotations

WAITING_FOR: dict[str, tuple[str, ...]] = {
    "decisions": (
        *("dec-vllm", "dec-sglang-path", "dec-sglang-unknown-field"),
        *("dec-question-type", "dec-unserved"),
    ),
    "stored responses": ("resp-get-unknown",),
}

# Where the contract says something else than a vector, which was only observed, does.
CONTRADICTED: dict[str, str] = {
    "err-worker-302": "ruling 12: redirects are never followed, the 3xx is relayed",
    "gen-batch": "ruling 1: the parse-error form holds on every JSON route, /generate "
    "included, so a schema failure is 400 json_parse_error and no plain-text 422",
}


def reason_to_fail(vector_id: str) -> str | None:
    """Why a vector cannot hold yet, None when it must."""
    for capability, ids in WAITING_FOR.items():
        if vector_id in ids:
            return f"needs {capability}"
    return CONTRADICTED.get(vector_id)
