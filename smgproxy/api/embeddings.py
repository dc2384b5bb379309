"""POST /v1/embeddings."""

from __future__ import annotations

from smgproxy.api.fields import U32, Body, RawInput, hold_raw
from smgproxy.api.schema import Schema


class EmbeddingRequest(Body, kw_only=True):
    """Texts or token ids to embed."""

    model: str
    input: RawInput
    encoding_format: str | None = None
    dimensions: U32 | None = None
    user: str | None = None
    rid: str | None = None

    def check(self) -> None:
        """Hold ``input`` to its types."""
        hold_raw(self.input, "input", "str | array")


SCHEMA = Schema(EmbeddingRequest)
