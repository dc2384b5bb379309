"""POST /v1/classify."""

from __future__ import annotations

from smgproxy.api.fields import Body, RawInput, hold_raw
from smgproxy.api.schema import Schema


class ClassifyRequest(Body, kw_only=True):
    """Texts or token ids to classify."""

    model: str
    input: RawInput
    user: str | None = None
    rid: str | None = None

    def check(self) -> None:
        """Hold ``input`` to its types."""
        hold_raw(self.input, "input", "str | array")


SCHEMA = Schema(ClassifyRequest)
