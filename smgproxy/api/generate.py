"""POST /generate, SGLang's own."""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType

from smgproxy.api.fields import Body, Object, RawArray, hold_raw
from smgproxy.api.schema import Schema


class GenerateRequest(Body, kw_only=True):
    """One text or its token ids; the sampling parameters are the worker's to judge."""

    text: str | None = None
    input_ids: RawArray | UnsetType = UNSET
    rid: Raw | UnsetType = UNSET
    lora_id: Raw | UnsetType = UNSET
    sampling_params: Object | None = None

    def check(self) -> None:
        """Hold ``input_ids`` to its type."""
        if self.input_ids is not UNSET:
            hold_raw(self.input_ids, "input_ids", "array | null")


SCHEMA = Schema(GenerateRequest)
