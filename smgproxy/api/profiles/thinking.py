"""Rules about thinking and effort that several profiles share."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from smgproxy.core.errors import InvalidField

if TYPE_CHECKING:
    from smgproxy.api.chat import ChatRequest

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def refuse_adaptive(request: ChatRequest) -> None:
    """``thinking.type: adaptive`` is none of the model's choices."""
    if request.thinking is not None and request.thinking.type == "adaptive":
        raise InvalidField(
            "__all__: invalid thinking.type: only enabled or disabled is allowed for "
            "this model"
        )


def efforts_of(request: ChatRequest) -> list[tuple[str, str]]:
    """Every effort that is given, the one that counts first, as name and text."""
    given = []
    if request.thinking is not None and request.thinking.effort is not None:
        given.append(("thinking.effort", request.thinking.effort))
    if request.reasoning_effort is not None:
        given.append(("reasoning_effort", decimal_text(request.reasoning_effort)))
    return given


def decimal_text(effort: str | int | float) -> str:
    """An effort as the string that workers get."""
    return effort if isinstance(effort, str) else repr(effort)


def efforts_within(levels: Container[str], named: str) -> Callable[[ChatRequest], None]:
    """A rule that holds both spellings of the effort to ``levels``, also the one
    that the other shadows."""

    def check(request: ChatRequest) -> None:
        for name, effort in efforts_of(request):
            if effort not in levels:
                raise InvalidField(
                    f"{name}: {effort[:100]!r} is not allowed for this model, must be "
                    f"{named}"
                )

    return check
