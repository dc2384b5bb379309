"""What a provider profile is: a vendor's contract where it differs from OpenAI's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from smgproxy.api.editing import Edits

if TYPE_CHECKING:
    from smgproxy.api.chat import ChatRequest

Rule = Callable[["ChatRequest"], None]
Rewrite = Callable[["ChatRequest", bytes, Edits], None]


def declares_none(request: ChatRequest) -> tuple[str, ...]:
    """Tools that messages declare: none, but for Kimi."""
    return ()


@dataclasses.dataclass(frozen=True)
class Profile:
    """One vendor's rules for chat completions (seed: Provider Profiles).

    ``family``: a vendor's; of its profiles that the segments of a name mark, the one
    of the highest ``rank`` is chosen.
    ``markers``: what a segment of the model's name begins with, in lower case, or is
    (``is_exact``). ``rules`` raise InvalidField. ``defaults`` are the JSON texts of
    fields that the client left out. ``rewrites`` note the edits of the body, of
    which ``outline.raw_field`` shows any field.
    """

    name: str
    family: str = ""
    rank: int = 0
    markers: tuple[str, ...] = ()
    is_exact: bool = False
    rules: tuple[Rule, ...] = ()
    defaults: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    rewrites: tuple[Rewrite, ...] = ()
    # Roles whose messages may declare tools; on all others `tools` is dropped.
    tool_roles: frozenset[str] = frozenset()
    declared_tools: Callable[[ChatRequest], tuple[str, ...]] = declares_none
    takes_root: bool = False
    # Whether streamed deltas are cut anew (dispatch/reslice.py).
    reslices: bool = False


BASELINE = Profile("openai")
