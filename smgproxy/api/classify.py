"""POST /v1/classify."""

from __future__ import annotations

from msgspec import Raw

from smgproxy.api.fields import Body
from smgproxy.api.schema import Schema


class ClassifyRequest(Body, kw_only=True):
    """Texts or token ids to classify."""

    model: str
    input: str | list[Raw]
    user: str | None = None
    rid: str | None = None


SCHEMA = Schema(ClassifyRequest)
