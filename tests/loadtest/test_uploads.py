"""The bodies of the upload tool."""

import json

import pytest

from loadtest.tools.uploads import PIECE_BYTES, Upload, make_body, parse_upload, pieces


@pytest.mark.parametrize("has_one_text", [False, True])
def test_a_body_is_a_chat_request_of_exactly_its_size(has_one_text: bool) -> None:
    body = make_body(100_000, has_one_text)
    assert len(body) == 100_000
    messages = json.loads(body)["messages"]
    assert (len(messages) == 1) is has_one_text


def test_the_pieces_are_the_body() -> None:
    body = make_body(PIECE_BYTES * 2 + 5)
    cut = list(pieces(body))
    assert [len(piece) for piece in cut] == [PIECE_BYTES, PIECE_BYTES, 5]
    assert b"".join(cut) == body


def test_an_upload_is_path_size_times_and_framing() -> None:
    assert parse_upload("/x,64,1") == Upload("/x", 64, 1)
    assert parse_upload("/x,20,3,chunked") == Upload("/x", 20, 3, "chunked")
    for text in ("/x,20,3,gzip", "/x,20,3,chunked,file-first"):
        with pytest.raises(ValueError):
            parse_upload(text)


@pytest.mark.parametrize("kind", ["model-first", "file-first"])
def test_a_form_holds_a_file_of_its_size_and_a_model(kind: str) -> None:
    upload = Upload("/x", 1, 1, kind)
    assert "form-data" in upload.headers["Content-Type"]
    body = upload.make_body(False)
    assert bytes(1 << 20) in body and b"\r\n\r\nsim\r\n" in body
    is_model_first = body.index(b'"model"') < body.index(b'"file"')
    assert is_model_first is (kind == "model-first")
