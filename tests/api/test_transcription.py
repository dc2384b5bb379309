"""The fields of a transcription's form: smgproxy/api/transcription.py."""

from __future__ import annotations

import pytest

from smgproxy.api.transcription import MAX_TEXT_BYTES, BadForm, TranscriptionForm


class File:
    """A file in memory."""

    def __init__(self) -> None:
        self.data = b""

    @property
    def size(self) -> int:
        return len(self.data)

    @size.setter
    def size(self, value: int) -> None:
        raise AssertionError

    def clear(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


FILE = (b"file", b"sound")
MODEL = (b"model", b"m")


def form_of(*fields: tuple[bytes, bytes]) -> TranscriptionForm:
    form = TranscriptionForm(File())
    for name, data in fields:
        form.on_part(name, b"a.wav" if name == b"file" else None, None)
        form.on_data(data[:2])
        form.on_data(data[2:])
        form.on_part_end()
    return form


def sent(*fields: tuple[bytes, bytes]) -> bytes:
    """What stands behind the file, without its framing."""
    form = form_of(FILE, MODEL, *fields)
    form.check()
    tail = form.tail("canonical", b"B")
    first = b'\r\n--B\r\nContent-Disposition: form-data; name="model"\r\n\r\ncanonical'
    assert tail.startswith(first) and tail.endswith(b"\r\n--B--\r\n")
    return tail[len(first) : -len(b"\r\n--B--\r\n")]


def text(name: bytes, value: bytes) -> bytes:
    disposition = b'\r\n--B\r\nContent-Disposition: form-data; name="%b"' % name
    return disposition + b"\r\n\r\n" + value


def refusal(*fields: tuple[bytes, bytes]) -> str:
    with pytest.raises(BadForm) as caught:
        form_of(*fields).check()
    return caught.value.message


def test_fields_go_on_in_one_order_and_others_do_not() -> None:
    fields = [
        *((b"stream", b"1"), (b"timestamp_granularities", b"word")),
        *((b"unknown", b"x"), (b"include[]", b"x"), (b"temperature", b" 0.5 ")),
        *((b"timestamp_granularities[]", b"other"), (b"prompt", b"")),
        *((b"response_format", b"zzz"), (b"language", b"de"), (b"prompt", b"\xff\r\n")),
    ]
    assert sent(*fields) == b"".join(
        (
            text(b"language", b"de"),
            text(b"prompt", "\N{REPLACEMENT CHARACTER}\r\n".encode()),
            text(b"response_format", b"zzz"),
            text(b"temperature", b"0.5"),
            text(b"timestamp_granularities[]", b"word"),
            text(b"timestamp_granularities[]", b"other"),
            text(b"stream", b"true"),
        )
    )
    assert sent() == b"", "no default is added"


def test_the_last_of_several_counts() -> None:
    form = form_of(FILE, MODEL, (b"file", b"last"), (b"model", b" other\n"))
    form.check()
    assert isinstance(form.file, File)
    assert (form.file.data, form.model) == (b"last", "other")


@pytest.mark.parametrize(
    ("filename", "kind", "head"),
    [
        (None, None, b'; filename="audio"'),
        (b"", None, b'; filename=""'),
        (b'a"b', b"audio/x", b'; filename="a%22b"\r\nContent-Type: audio/x'),
    ],
)
def test_the_file_keeps_its_name_and_type(
    filename: bytes | None, kind: bytes | None, head: bytes
) -> None:
    form = TranscriptionForm(File())
    form.on_part(b"file", filename, kind)
    start = b'--B\r\nContent-Disposition: form-data; name="file"'
    assert form.head(b"B") == start + head + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *((b"1e-1", b"0.1"), (b"1", b"1"), (b"0.0", b"0"), (b"-0", b"0")),
        *(
            (b"+.5", b"0.5"),
            (b"1.", b"1"),
            (b"1E-7", b"0.0000001"),
            (b"\t0.30\n", b"0.3"),
        ),
    ],
)
def test_a_temperature_is_sent_as_its_shortest_decimal(
    value: bytes, told: bytes
) -> None:
    assert sent((b"temperature", value)) == text(b"temperature", told)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        *((b"", "not empty"), (b" ", "not empty")),
        *(
            (value, "not a number")
            for value in (b"warm", b"nan", b"inf", b"1_0", b"0x1")
        ),
        *((value, "not a number") for value in (b".", b"1e", "\u0661".encode())),
        (b"1" * 5000, "not a number"),
        *((value, "not between") for value in (b"-0.1", b"1.0001", b"1e999", b"2")),
    ],
)
def test_any_other_temperature_is_refused(value: bytes, why: str) -> None:
    message = refusal(FILE, MODEL, (b"temperature", value))
    assert message.startswith("Invalid temperature: ") and why in message
    assert len(message) < 120


@pytest.mark.parametrize(
    ("value", "told"),
    [(b"TRUE", b"true"), (b"tRue", b"true"), (b"1", b"true")]
    + [(b"False", b"false"), (b"0", b"false")],
)
def test_stream_is_told_in_one_spelling(value: bytes, told: bytes) -> None:
    assert sent((b"stream", value)) == text(b"stream", told)


@pytest.mark.parametrize("value", [b"", b" true", b"yes", b"2", b"x\r\ny" * 99])
def test_any_other_stream_is_refused(value: bytes) -> None:
    message = refusal(FILE, MODEL, (b"stream", value))
    assert message.startswith("Invalid stream: ")
    assert len(message) < 120 and "\n" not in message


def test_what_is_missing_is_named() -> None:
    assert refusal(MODEL) == "Missing form field 'file'"
    assert refusal(MODEL, (b"file", b"")) == "The uploaded file must not be empty"
    assert refusal(FILE) == "Missing form field 'model'"
    assert refusal(FILE, (b"model", b" \n")) == "Missing form field 'model'"


def test_the_texts_of_a_form_have_a_limit_together() -> None:
    half = b"x" * (MAX_TEXT_BYTES // 2)
    fields = (FILE, (b"prompt", half), (b"language", half))
    form_of(*fields, (b"unknown", half))
    with pytest.raises(BadForm, match="'model' is too long"):
        form_of(*fields, MODEL)
