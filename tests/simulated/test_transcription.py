"""Transcriptions of the simulated worker: smgproxy/simulated/transcription.py."""

import json
from typing import Any

import pytest

from smgproxy.simulated.bodies import BadAsk
from smgproxy.simulated.transcription import transcription


def form(file: bytes, name: bytes = b"file") -> bytes:
    return (
        b'--b\r\nContent-Disposition: form-data; name="%b"; filename="a.wav"\r\n\r\n'
        b"%b\r\n--b--\r\n" % (name, file)
    )


def heard(file: bytes) -> Any:
    return json.loads(transcription(form(file), "m", "id").body)


def test_the_same_file_says_the_same_and_another_something_else() -> None:
    assert heard(b"a" * 9000) == heard(b"a" * 9000)
    assert heard(b"a" * 9000)["text"] != heard(b"b" * 9000)["text"]
    assert heard(b"a")["text"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", form(b""), form(b"x", b"other"), form(b"x")[:-8]]
)
def test_what_an_engine_refuses_is_refused(body: bytes) -> None:
    with pytest.raises(BadAsk):
        transcription(body, "m", "id")
