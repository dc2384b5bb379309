"""POST /generate, SGLang's own."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from smgproxy.api.fields import Body
from smgproxy.api.schema import Schema


class GenerateRequest(Body, kw_only=True):
    """One text or its token ids; the sampling parameters are the worker's to judge."""

    text: str | None = None
    input_ids: list[Raw] | None = None
    rid: Any = None
    lora_id: Any = None
    sampling_params: dict[str, Raw] | None = None


SCHEMA = Schema(GenerateRequest)
