"""WebSocket frames by the groups of the Autobahn test suite, and what becomes of each.

A case is what one side sends. ``code`` is None for what passes untouched, else the
Close code that its sender is owed; what stands before the fault still passes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tests.fakes.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    close_payload,
    frame,
)

MASK = b"\x37\xfa\x21\x3d"


@dataclass(frozen=True)
class Piece:
    """One frame; ``raw`` stands for its bytes, whoever sends it."""

    opcode: int = TEXT
    payload: bytes = b""
    final: bool = True
    reserved: int = 0
    raw: bytes | None = None

    def encoded(self, is_client: bool) -> bytes:
        """Its bytes, with the mask that its sender must use."""
        if self.raw is not None:
            first, second = self.raw[:2]
            return bytes((first, second | is_client << 7)) + self.raw[2:]
        return frame(
            self.opcode,
            self.payload,
            final=self.final,
            reserved=self.reserved,
            mask=MASK if is_client else None,
        )


@dataclass(frozen=True)
class Case:
    """What is sent; with a code, all but the last piece passes."""

    name: str
    pieces: tuple[Piece, ...]
    code: int | None = None
    closes: int | None = None  # the code of the Close that passes last
    has_deflate: bool = False


def passing(case: Case) -> tuple[Piece, ...]:
    """What goes on: all before the fault, which in a few cases is not the last."""
    if case.code is None:
        return case.pieces
    first = case.pieces[0]
    is_at_once = first.opcode in (PING, PONG) and not first.final
    is_stray = first.opcode == CONTINUATION
    return () if is_at_once or is_stray else case.pieces[:-1]


def _case(name: str, *pieces: Piece, code: int | None = None) -> Case:
    return Case(name, pieces, code)


def _text(data: bytes, final: bool = True, reserved: int = 0) -> Piece:
    return Piece(TEXT, data, final, reserved)


def _more(data: bytes, final: bool = True, reserved: int = 0) -> Piece:
    return Piece(CONTINUATION, data, final, reserved)


def _ping(data: bytes = b"", final: bool = True, reserved: int = 0) -> Piece:
    return Piece(PING, data, final, reserved)


def _pong(data: bytes = b"") -> Piece:
    return Piece(PONG, data)


def _close(payload: bytes = b"") -> Piece:
    return Piece(CLOSE, payload)


_SIZES = (0, 125, 126, 127, 128, 65535, 65536)
_UTF8 = "Hello-µ@ßöäüàá-UTF-8!!".encode()
_BAD_UTF8 = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited"


def _framing() -> list[Case]:
    """1: lengths of text and binary messages, each form of the length."""
    cases = [
        _case(f"1.{group}.{number} {kind} of {size} bytes", Piece(opcode, b"*" * size))
        for group, kind, opcode in ((1, "text", TEXT), (2, "binary", BINARY))
        for number, size in enumerate(_SIZES, 1)
    ]
    return [
        *cases,
        _case("1.1.8 many in a row", *[_text(b"*" * size) for size in range(120, 132)]),
        _case("1.2.8 many in a row", *[Piece(BINARY, b"*" * n) for n in (0, 300, 4)]),
    ]


def _pings() -> list[Case]:
    """2: pings and pongs."""
    return [
        _case("2.1 ping without payload", _ping()),
        _case("2.2 ping with text", _ping(b"Hello, world!")),
        _case("2.3 ping with bytes that are no text", _ping(b"\x00\xff\xfe\xfd\xfc")),
        _case("2.4 ping of 125 bytes", _ping(b"\xfe" * 125)),
        _case("2.5 ping of 126 bytes", _ping(b"\xfe" * 126), code=1002),
        _case("2.5b ping of 70000 bytes", _ping(b"\xfe" * 70000), code=1002),
        _case("2.6 ping of 125 bytes among others", _ping(b"\xfe" * 125), _text(b"x")),
        _case("2.7 pong nobody asked for, empty", _pong()),
        _case("2.8 pong nobody asked for", _pong(b"unsolicited")),
        _case("2.9 pong, then ping", _pong(b"unsolicited"), _ping(b"ping")),
        _case("2.10 ten pings", *[_ping(b"payload-%d" % n) for n in range(10)]),
        _case("2.11 pong of 126 bytes", _pong(b"*" * 126), code=1002),
    ]


def _reserved() -> list[Case]:
    """3: reserved bits without an extension."""
    small = _text(b"small text")
    cases = [
        _case(f"3.{bits} text, RSV={bits}", _text(b"x", reserved=bits), code=1002)
        for bits in range(1, 8)
    ]
    return [
        *cases,
        _case("3.2b RSV=2 behind a text", small, _text(b"x", reserved=2), code=1002),
        _case("3.3b RSV=3 behind a ping", _ping(), _text(b"x", reserved=3), code=1002),
        _case("3.5b binary, RSV=5", Piece(BINARY, b"\0\xff", reserved=5), code=1002),
        _case("3.6b ping, RSV=6", _ping(b"x", reserved=6), code=1002),
        _case("3.7b close, RSV=7", Piece(CLOSE, reserved=7), code=1002),
        _case(
            "3.8 continuation, RSV=4",
            *(_text(b"a", final=False), _more(b"b", reserved=4)),
            code=1002,
        ),
    ]


def _opcodes() -> list[Case]:
    """4: opcodes that mean nothing."""
    small = _text(b"Hello, world!")
    alone = [
        _case(f"4.{group}.{number} opcode {opcode}", Piece(opcode, data), code=1002)
        for group, opcodes in ((1, range(3, 8)), (2, range(11, 16)))
        for number, opcode in enumerate(opcodes, 1)
        for data in (b"" if number % 2 else b"reserved opcode payload",)
    ]
    behind = [
        _case(
            f"4.{group}.{number}b opcode {opcode} between others",
            *(small, Piece(opcode, b"x")),
            code=1002,
        )
        for group, opcodes in ((1, range(3, 8)), (2, range(11, 16)))
        for number, opcode in enumerate(opcodes, 1)
    ]
    return alone + behind


def _fragments() -> list[Case]:
    """5: fragmented messages, and what may stand between fragments."""
    first, last = _text(b"fragment1", final=False), _more(b"fragment2")
    middle = _more(b"fragment", final=False)
    half_ping, half_pong = _ping(b"half", final=False), Piece(PONG, b"half", False)
    return [
        _case("5.1 ping in two fragments", half_ping, _more(b"x"), code=1002),
        _case("5.2 pong in two fragments", half_pong, _more(b"x"), code=1002),
        _case("5.3 text in two fragments", first, last),
        _case("5.4 text in three fragments", first, middle, last),
        _case("5.5 many fragments", first, *[middle] * 50, last),
        _case("5.6 ping between fragments", first, _ping(b"ping"), last),
        _case("5.7 pong between fragments", first, _pong(b"pong"), last),
        _case("5.8 both between fragments", first, _ping(b"a"), _pong(b"b"), last),
        _case("5.9 continuation of nothing", last, code=1002),
        _case("5.10 continuation of nothing, not final", middle, code=1002),
        _case("5.11 continuation behind a message", _text(b"x"), last, code=1002),
        _case("5.12 empty continuation of nothing", _more(b""), code=1002),
        _case("5.13 continuation, then text", middle, _text(b"x"), code=1002),
        _case("5.14 continuation too many", first, last, last, code=1002),
        _case("5.15 text within a text", first, _text(b"fragment2"), code=1002),
        _case("5.16 binary within a text", first, Piece(BINARY, b"x"), code=1002),
        _case("5.17 first fragment twice", first, first, code=1002),
        _case("5.18 two texts without a continuation", first, first, code=1002),
        _case("5.19 pings between many", first, _ping(), middle, _ping(), middle, last),
        _case("5.20 empty fragments", _text(b"", False), _more(b"", False), _more(b"")),
        _case("5.21 binary in fragments", Piece(BINARY, b"\0", False), last),
        _case("5.22 close in fragments", Piece(CLOSE, b"", False), code=1002),
        _case("5.23 a message behind fragments", first, last, _text(b"y"), first, last),
        _case("5.24 long fragments", _text(b"x" * 70000, False), _more(b"y" * 70000)),
    ]


def _utf8() -> list[Case]:
    """6: texts are not looked into; whoever reads them says what they are worth."""
    whole = [
        ("6.1.1 empty text", (b"",)),
        ("6.1.2 empty fragments", (b"", b"", b"")),
        ("6.1.3 text between empty fragments", (b"", b"middle", b"")),
        ("6.2.1 valid", (_UTF8,)),
        ("6.2.2 valid, cut between characters", (_UTF8[:6], _UTF8[6:])),
        ("6.2.3 valid, byte by byte", tuple(_UTF8[n : n + 1] for n in range(12))),
        ("6.2.4 valid, cut in a character", (_UTF8[:7], _UTF8[7:])),
        ("6.3.1 invalid", (_BAD_UTF8,)),
        ("6.3.2 invalid, byte by byte", tuple(bytes([b]) for b in _BAD_UTF8)),
        ("6.4.1 invalid in the second fragment", (b"\xce\xba", b"\xf4\x90\x80\x80")),
        ("6.5.1 noncharacter", (b"\xef\xbf\xbe",)),
        ("6.6.1 half a character", (b"\xce",)),
        ("6.7.1 NUL", (b"\x00",)),
        ("6.10.1 overlong", (b"\xc0\xaf",)),
        ("6.12.1 surrogate", (b"\xed\xa0\x80",)),
        ("6.20.1 byte that never occurs", (b"\xff",)),
    ]
    return [_case(name, *_in_fragments(fragments)) for name, fragments in whole]


def _in_fragments(texts: tuple[bytes, ...]) -> list[Piece]:
    last = len(texts) - 1
    return [
        Piece(CONTINUATION if at else TEXT, text, at == last)
        for at, text in enumerate(texts)
    ]


def _closes() -> list[Case]:
    """7: closing; every code that may be sent, and those that may not."""
    good = (*(1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011), 1012, 1013, 1014)
    private = (3000, 3999, 4000, 4999)
    bad = (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    cases = [
        Case("7.1.1 close, empty", (_text(b"Hello"), _close()), closes=1005),
        Case("7.3.1 empty payload", (_close(),), closes=1005),
        _case("7.3.2 payload of one byte", _close(b"a"), code=1002),
        Case("7.3.3 code alone", (_close(close_payload(1000)),), closes=1000),
        Case("7.3.4 reason", (_close(close_payload(1000, "Hi")),), closes=1000),
        Case("7.3.5 longest", (_close(close_payload(1000, "*" * 123)),), closes=1000),
        _case("7.3.6 too long", _close(close_payload(1000, "*" * 124)), code=1002),
        _case("7.5.1 reason no text", _close(b"\x03\xe8" + _BAD_UTF8), code=1007),
        _case("7.5.2 reason cut off", _close(b"\x03\xe8caf\xc3"), code=1007),
        _case("7.5.3 reason surrogate", _close(b"\x03\xe8\xed\xa0\x80"), code=1007),
    ]
    cases += [
        Case(f"7.7 code {code}", (_close(close_payload(code, "r")),), closes=code)
        for code in good + private
    ]
    cases += [
        _case(f"7.9 code {code}", _close(close_payload(code, "r")), code=1002)
        for code in bad
    ]
    return cases


def _limits() -> list[Case]:
    """9: long messages, whole and in fragments."""
    size = 256 * 1024
    cases = [
        _case(f"9.{n} message of {4**n // 4 * 64} KiB", Piece(op, b"*" * 4**n * 16384))
        for n, op in ((1, TEXT), (2, BINARY), (3, TEXT))
    ]
    for number, step in enumerate((4096, 16384, 65536, size), 1):
        pieces = _in_fragments((b"*" * step,) * (size // step))
        cases.append(_case(f"9.3.{number} fragments of {step}", *pieces))
    return cases


def _lengths() -> list[Case]:
    """10: how frames are cut on their way, and lengths that are written wrongly."""
    return [
        _case("10.1.1 text of 65536 bytes, cut anywhere", _text(b"*" * 65536)),
        Case("10.2 length not shortest, 16 bits", (_long(126, 5),), 1002),
        Case("10.3 length not shortest, 64 bits", (_long(127, 5),), 1002),
        Case("10.4 64 bits where 16 do", (_long(127, 65535),), 1002),
        Case("10.5 length of 2**63", (_long(127, 1 << 63),), 1002),
    ]


def _long(form: int, length: int) -> Piece:
    width = "!H" if form == 126 else "!Q"
    body = struct.pack(width, length)
    return Piece(raw=b"\x81" + bytes([form]) + body)


def _deflated() -> list[Case]:
    """12, 13: messages that are compressed, where that was agreed."""
    packed, ping = b"\xf2\x48\xcd\xc9\xc9\x07\x00", _ping(reserved=4)
    half = _text(packed[:3], False, 4)
    return [
        Case("12.1 compressed text", (_text(packed, reserved=4),), has_deflate=True),
        Case(
            "12.2 plain text beside",
            (_text(b"x"), _text(packed, True, 4)),
            None,
            None,
            True,
        ),
        Case("12.3 in fragments", (half, _more(packed[3:])), has_deflate=True),
        Case(
            "13.1 RSV1 on a continuation",
            (half, _more(b"x", True, 4)),
            1002,
            None,
            True,
        ),
        Case("13.2 RSV1 on a ping", (ping,), 1002, None, True),
        Case("13.3 RSV2", (_text(b"x", reserved=2),), 1002, None, True),
        Case("13.4 RSV1 and RSV3", (_text(b"x", reserved=5),), 1002, None, True),
    ]


CASES = [
    *_framing(),
    *_pings(),
    *_reserved(),
    *_opcodes(),
    *_fragments(),
    *_utf8(),
    *_closes(),
    *_limits(),
    *_lengths(),
    *_deflated(),
]
