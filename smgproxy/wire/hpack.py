"""Header compression (RFC 7541), bent to what a gateway sees.

Messages of one peer differ little, so a block that was read before is not read again
while the table it refers to stands. What is written does without the dynamic table:
most fields are new each time, and what a peer's table may hold for us would be memory
of ours for each connection.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpack import Decoder
from hpack.hpack import encode_integer
from hpack.struct import HeaderTuple
from hpack.table import HeaderTable

# Blocks kept by one connection, and their longest: a byte may stand for a field, which
# is 70 bytes of ours.
_KEPT_BLOCKS = 32
_KEPT_BYTES = 1024
_KEPT_FIELDS_OF_BLOCK = 64
# Encoded fields kept for all connections: those whose value is always the same. And
# encoded names, of workers' fields too.
_KEPT_FIELDS = 512
_KEPT_NAME_BYTES = 64

# Names of the static table by their first index (RFC 7541 appendix A).
_STATIC: dict[bytes, int] = {}
for _at, (_name, _value) in enumerate(HeaderTable.STATIC_TABLE, 1):
    _STATIC.setdefault(_name, _at)
# "The dynamic table is empty and stays so" (section 6.3).
_NO_TABLE = b"\x20"
_fields: dict[tuple[bytes, bytes], bytes] = {
    (name, value): bytes((0x80 | at,))
    for at, (name, value) in enumerate(HeaderTable.STATIC_TABLE, 1)
    if value
}
_names: dict[bytes, bytes] = {}


class PlainEncoder:
    """Writes header blocks that leave nothing behind in the reader's table."""

    __slots__ = ("_has_begun", "header_table_size")

    def __init__(self) -> None:
        self._has_begun = False
        # What the reader would allow; h2 sets it, nothing here needs it.
        self.header_table_size = 4096

    def encode(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """One header block."""
        kept = _fields.get
        block = b"".join([kept(field) or _coded(*field) for field in headers])
        if self._has_begun:
            return block
        self._has_begun = True
        return _NO_TABLE + block


def _coded(name: bytes, value: bytes) -> bytes:
    head, size = _names.get(name) or _name_of(name), len(value)
    if size < 127:
        coded = b"%b%c%b" % (head, size, value)
    else:
        coded = head + bytes(encode_integer(size, 7)) + value
    if name in _ALIKE and len(_fields) < _KEPT_FIELDS:
        _fields[name, value] = coded
    return coded


# Fields of few values; worker ids and authorities are as many as there are workers,
# paths are those that workers are asked for.
_ALIKE = frozenset(
    (
        *(b"content-type", b"x-smg-routed-worker-id", b"server"),
        *(b":authority", b":path", b"accept"),
    )
)


def _name_of(name: bytes) -> bytes:
    """A literal without indexing (section 6.2.2), up to its value."""
    index = _STATIC.get(name)
    if index is not None:
        coded = bytes(encode_integer(index, 4))
    else:
        coded = b"\0" + bytes(encode_integer(len(name), 7)) + name
    if len(_names) < _KEPT_FIELDS and len(name) <= _KEPT_NAME_BYTES:
        _names[name] = coded
    return coded


class RememberingDecoder(Decoder):
    """Reads header blocks; one that came before, under the same table, at once."""

    def __init__(self, max_header_list_size: int) -> None:
        super().__init__(max_header_list_size)
        self._kept: dict[bytes, list[HeaderTuple]] = {}

    def decode(self, data: bytes, raw: bool = False) -> list[HeaderTuple]:
        """The fields of a block. Raises HPACKError."""
        kept = self._kept.get(data)
        if kept is not None:
            return kept
        table = self.header_table.dynamic_entries
        count, newest = len(table), table[0] if table else None
        headers = list(super().decode(data, raw))
        # Every insertion leaves another entry, or none, in front. A block that begins
        # with a size update may only be read where it stands.
        if data[:1] >= b"\x20" and data[:1] < b"\x40":
            self._kept.clear()
        elif len(table) != count or (table and table[0] is not newest):
            self._kept.clear()
        elif (
            len(self._kept) < _KEPT_BLOCKS
            and len(data) <= _KEPT_BYTES
            and len(headers) <= _KEPT_FIELDS_OF_BLOCK
        ):
            self._kept[bytes(data)] = headers
        return headers
