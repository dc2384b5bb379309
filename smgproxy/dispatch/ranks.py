"""Telling a data-parallel engine which of its ranks a request is for."""

from __future__ import annotations

from smgproxy.api.edits import rebuilt
from smgproxy.api.outline import outline_of
from smgproxy.core.errors import GatewayError

_FIELD = "data_parallel_rank"
_QUOTED = b'"data_parallel_rank"'


class RanksNotSupported(GatewayError):
    """The worker is a rank, and nothing in the request could tell its engine so."""

    status = 400
    code = "dp_aware_not_supported"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} does not yet support DP-aware workers")


def with_rank(body: bytes, rank: int) -> bytes:
    """A JSON object with ``data_parallel_rank`` as its last field (contract).

    The rest keeps the client's own bytes. ``body`` must be a valid object; a rank that
    its client chose gives way, because the load is counted at this one.
    """
    if _QUOTED in body:
        body = rebuilt(outline_of(body), {_FIELD: None})
    # A field has a quoted name, and the last brace is the object's own. The body may
    # have many megabytes: the join is the one copy of it.
    comma = b"," if b'"' in body else b""
    fields = memoryview(body)[: body.rindex(b"}")]
    return b"".join((fields, comma, b"%b:%d}" % (_QUOTED, rank)))
