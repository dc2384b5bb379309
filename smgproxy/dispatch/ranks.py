"""Telling a data-parallel engine which of its ranks a request is for."""

from __future__ import annotations

from smgproxy.api.editing import edit_steps
from smgproxy.api.outline import raw_field
from smgproxy.api.steps import Steps
from smgproxy.core.errors import GatewayError

_FIELD = "data_parallel_rank"
_QUOTED = b'"data_parallel_rank"'


class RanksNotSupported(GatewayError):
    """The worker is a rank, and nothing in the request could tell its engine so."""

    status = 400
    code = "dp_aware_not_supported"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} does not yet support DP-aware workers")


def rankless_steps(body: bytes) -> Steps[bytes]:
    """A body without a rank of its client's choice, in steps where it has many keys.

    That gives way, because the load is counted at the rank that was picked.
    """
    # Letters may be spelled as \\u00...
    if _QUOTED in body or b"\\u00" in body:
        if raw_field(body, _FIELD) is not None:
            body = yield from edit_steps(body, {_FIELD: None})
    return body


def with_rank(body: bytes, rank: int) -> bytes:
    """A JSON object with ``data_parallel_rank`` as its last field (contract).

    The rest keeps the client's own bytes. ``body`` must be a valid object without it.
    """
    # A field has a quoted name, and the last brace is the object's own. The body may
    # have many megabytes: the join is the one copy of it.
    comma = b"," if b'"' in body else b""
    fields = memoryview(body)[: body.rindex(b"}")]
    return b"".join((fields, comma, b"%b:%d}" % (_QUOTED, rank)))
