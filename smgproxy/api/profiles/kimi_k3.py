"""Kimi K3: Kimi's rules, and sampling that is all but fixed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from smgproxy.api.profiles.kimi import KIMI
from smgproxy.api.profiles.thinking import refuse_adaptive
from smgproxy.core.errors import InvalidField

if TYPE_CHECKING:
    from smgproxy.api.chat import ChatRequest

# Field by field, the values that are allowed; the fields' defaults stand below.
ALLOWED: dict[str, tuple[float, ...]] = {
    "temperature": (0, 0.6, 1),
    "top_p": (0.95,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "n": (1,),
}
EFFORTS = ("low", "high", "max")


def check_sampling(request: ChatRequest) -> None:
    """Hold the sampling fields to their few values."""
    for name, allowed in ALLOWED.items():
        value = getattr(request, name)
        if value is not None and value not in allowed:
            choice = ", ".join(f"{each:g}" for each in allowed)
            raise InvalidField(
                f"{name}: {value:.9g} is not allowed for this model, must be "
                f"{'one of ' if len(allowed) > 1 else ''}{choice}"
            )


def check_effort(request: ChatRequest) -> None:
    """Hold the thinking effort to its levels."""
    effort = None if request.thinking is None else request.thinking.effort
    if effort is not None and effort not in EFFORTS:
        raise InvalidField(
            f"thinking.effort: {effort[:100]!r} is not allowed for this model, "
            f"must be one of {', '.join(EFFORTS)}"
        )


KIMI_K3 = dataclasses.replace(
    KIMI,
    name="kimi_k3",
    rank=1,
    markers=("kimi-k3", "kimi_k3"),
    rules=(*KIMI.rules, check_sampling, refuse_adaptive, check_effort),
    defaults={
        "temperature": b"1.0",
        "top_p": b"0.95",
        "presence_penalty": b"0",
        "frequency_penalty": b"0",
        "n": b"1",
    },
)
PROFILES = (KIMI_K3,)
