"""Telling a data-parallel engine which of its ranks a request is for."""

from __future__ import annotations

_BLANKS = b" \t\r\n"


def with_rank(body: bytes, rank: int) -> bytes:
    """A JSON object with ``data_parallel_rank`` as its last field (contract).

    The rest keeps the client's own bytes. ``body`` must be a valid object; should it
    have the field already, the last of two counts for every parser in use.
    """
    head = body.rstrip(_BLANKS)[:-1]
    comma = b"" if head.strip(_BLANKS) == b"{" else b","
    return b'%s%s"data_parallel_rank":%d}' % (head, comma, rank)
