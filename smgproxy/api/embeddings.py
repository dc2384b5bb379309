"""POST /v1/embeddings."""

from __future__ import annotations

from msgspec import Raw

from smgproxy.api.fields import U32, Body
from smgproxy.api.schema import Schema


class EmbeddingRequest(Body, kw_only=True):
    """Texts or token ids to embed."""

    model: str
    input: str | list[Raw]
    encoding_format: str | None = None
    dimensions: U32 | None = None
    user: str | None = None
    rid: str | None = None


SCHEMA = Schema(EmbeddingRequest)
