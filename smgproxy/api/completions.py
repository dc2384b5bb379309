"""POST /v1/completions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from smgproxy.api.fields import (
    BestOf,
    CompletionsN,
    Logprobs,
    Sampling,
    check_constraints,
)
from smgproxy.api.schema import Schema
from smgproxy.core.errors import InvalidField


class CompletionRequest(Sampling, kw_only=True):
    """A text completion as far as the gateway looks at it."""

    prompt: str | Annotated[list[str], Meta(min_length=1)]
    n: CompletionsN | None = None
    best_of: BestOf | None = None
    logprobs: Logprobs | None = None
    echo: bool | None = None
    suffix: str | None = None
    user: str | None = None
    json_schema: str | None = None

    def check(self) -> None:
        """Hold the rules that span fields."""
        self.check_sampling("max_tokens", self.max_tokens)
        if self.best_of is not None:
            if self.stream is True:
                raise InvalidField("best_of: cannot be combined with stream")
            if self.n is not None and self.best_of <= self.n:
                raise InvalidField(
                    f"best_of: {self.best_of} must be greater than n, which is {self.n}"
                )
        check_constraints(
            {"regex": self.regex, "ebnf": self.ebnf, "json_schema": self.json_schema}
        )


SCHEMA = Schema(CompletionRequest)
