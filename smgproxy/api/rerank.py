"""POST /v1/rerank and /rerank."""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType

from smgproxy.api.fields import Body
from smgproxy.api.schema import Schema


class RerankRequest(Body, kw_only=True):
    """Documents to order by their relevance to a query."""

    query: str
    documents: list[str]
    top_n: int | None = None
    return_documents: bool | None = None
    user: str | None = None
    rid: Raw | UnsetType = UNSET


SCHEMA = Schema(RerankRequest)
