"""multipart/form-data, in whatever pieces it comes: smgproxy/wire/multipart.py."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from smgproxy.wire.multipart import (
    MAX_BOUNDARY_BYTES,
    MAX_DELIMITERS,
    MAX_PART_HEADER_BYTES,
    MAX_PART_HEADERS,
    FormReader,
    MultipartError,
    boundary_of,
    part_head,
)

Part = tuple[bytes, bytes | None, bytes | None, bytes]


class Kept:
    """The parts that were complete."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._begun: tuple[bytes, bytes | None, bytes | None] | None = None
        self._data = b""

    def on_part(
        self, name: bytes, filename: bytes | None, content_type: bytes | None
    ) -> None:
        self._begun, self._data = (name, filename, content_type), b""

    def on_data(self, data: bytes) -> None:
        assert self._begun is not None
        self._data += data

    def on_part_end(self) -> None:
        assert self._begun is not None
        self.parts.append((*self._begun, self._data))
        self._begun = None


def read(pieces: Iterable[bytes], boundary: bytes = b"b") -> list[Part]:
    kept = Kept()
    reader = FormReader(boundary, kept)
    for piece in pieces:
        reader.feed(piece)
    reader.finish()
    return kept.parts


def field(name: bytes, text: bytes = b"x") -> bytes:
    return b"--b\r\n" + part_head(name) + text + b"\r\n"


FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a;b.wav"\r\n'
    b"content-type:audio/wav\r\nX-Other: y\r\n\r\n\r\n--\r\n--c\r\n--bb\x00\xff\r\r\n"
    b"--b\r\nContent-Disposition: form-data; name=model\r\n\r\n m \r\n"
    b"--b\r\nContent-Disposition: form-data; filename=x\r\n\r\nunnamed\r\n"
    b"--b\r\n\r\nbare\r\n" + field(b"empty", b"") + b"--b--\r\n"
)
PARTS = [
    (b"file", b"a;b.wav", b"audio/wav", b"\r\n--\r\n--c\r\n--bb\x00\xff\r"),
    (b"model", None, None, b" m "),
    (b"empty", None, None, b""),
]


@pytest.mark.parametrize("before", [b"", b"\r\n", b"a preamble\r\n--\r\n--c\r\n"])
@pytest.mark.parametrize("behind", [b"", b"an epilogue\r\n--b\r\n"])
def test_a_form_is_read_alike_wherever_it_is_cut(before: bytes, behind: bytes) -> None:
    form = before + FORM + behind
    assert read([form]) == PARTS
    assert read([form[i : i + 1] for i in range(len(form))]) == PARTS
    for cut in range(len(form)):
        assert read([form[:cut], form[cut:]]) == PARTS, cut


@pytest.mark.parametrize(
    "piece", [b"\r\n--b\r\na: b\r\n\r\n", b"\r\n--bx"], ids=["parts", "likenesses"]
)
def test_a_form_may_not_be_full_of_delimiters(piece: bytes) -> None:
    start = b"--b\r\n" + part_head(b"file")
    read([start, piece * (MAX_DELIMITERS - 1), b"\r\n--b--"])
    with pytest.raises(MultipartError, match=f"{MAX_DELIMITERS} fields at most"):
        read([start, piece * MAX_DELIMITERS, b"\r\n--b--"])


def test_space_behind_a_delimiter_is_not_gone_through() -> None:
    reader = FormReader(b"b", Kept())
    reader.feed(b"--b\r\n" + part_head(b"model") + b"m\r\n--b")
    began = time.process_time()
    with pytest.raises(MultipartError, match="space behind"):
        reader.feed(b" " * 16_000_000)
    assert time.process_time() - began < 0.5, "byte by byte it takes two seconds"


def test_a_long_preamble_is_not_kept() -> None:
    assert read([b"-" * 1000] * 1000 + [b"\r\n" + FORM]) == PARTS


@pytest.mark.parametrize(
    ("form", "where"),
    [
        (b"", "next form field"),
        (b"--other\r\n\r\n\r\n--other--", "next form field"),
        (FORM.replace(b"--b--", b""), "'empty'"),
        (FORM[:120], "'file'"),
        (b"--b\r\n" + part_head(b"model") + b"m\r\n--b", "'model'"),
        (b"--b\r\n" + part_head(b"model") + b"m\r\n--b \r\n", "space behind"),
        (b"--b\r\n" + part_head(b"model") + b"m\r\n--b\t--\r\n", "space behind"),
        (b"--b \r\n" + part_head(b"model"), "next form field"),
        (b"--b\r\nbad header\r\n\r\n\r\n--b--", "next form field"),
        (b"--b\r\na: b\nname: c\r\n\r\n\r\n--b--", "next form field"),
        (b"--b\r\n" + b"a: b\r\n" * (MAX_PART_HEADERS + 1), "next form field"),
        (b"--b\r\na: " + b"x" * (MAX_PART_HEADER_BYTES + 1), "next form field"),
    ],
)
def test_what_is_no_form_is_refused_and_placed(form: bytes, where: str) -> None:
    with pytest.raises(MultipartError, match=where):
        read([form])
    with pytest.raises(MultipartError, match=where):
        read([form[i : i + 1] for i in range(len(form))])


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=b", b"b"),
        (b'Multipart/Form-Data;charset=utf-8; BOUNDARY="a b;c"', b"a b;c"),
        (b"multipart/form-data;boundary=a=b;x=y", b"a=b"),
    ],
)
def test_a_boundary_may_be_quoted(content_type: bytes, boundary: bytes) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "content_type",
    [
        *(None, b"", b"application/json", b"multipart/mixed; boundary=b"),
        *(b"multipart/form-data", b"multipart/form-data; boundary="),
        b"multipart/form-data; boundary=" + b"x" * (MAX_BOUNDARY_BYTES + 1),
    ],
)
def test_a_type_without_a_boundary_is_refused(content_type: bytes | None) -> None:
    with pytest.raises(MultipartError):
        boundary_of(content_type)


def test_a_filename_cannot_write_headers_of_its_own() -> None:
    head = part_head(b"file", b'a"\r\nX: y\x00', b"audio/wav")
    assert head == (
        b'Content-Disposition: form-data; name="file"; '
        b'filename="a%22%0D%0AX: y%00"\r\nContent-Type: audio/wav\r\n\r\n'
    )


@pytest.mark.parametrize(
    ("sent", "filename"),
    [
        (b'"C:\\dir\\a.wav"', b"C:\\dir\\a.wav"),
        (b'"a\\"b\\\\.wav"', b'a"b\\.wav'),
        (b'""', b""),
        (b"plain.wav", b"plain.wav"),
        ('"ü.wav"'.encode(), "ü.wav".encode()),
    ],
)
def test_a_filename_is_read_as_it_was_sent(sent: bytes, filename: bytes) -> None:
    form = (
        b"--b\r\nContent-Disposition: form-data; name=f; filename=%b; "
        b"filename*=UTF-8''other\r\n\r\n\r\n--b--" % sent
    )
    [(_, found, _, _)] = read([form])
    assert found == filename
