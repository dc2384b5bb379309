"""Numbers instead of words: smgproxy/simulated/scoring.py."""

import base64
import json
import struct
from typing import Any

import pytest

from smgproxy.simulated.bodies import BadAsk
from smgproxy.simulated.scoring import Scored, classes, embeddings, rerank

RERANK = b'{"query":"a calm river","documents":["a lamp","the calm river","none"]%b}'


def read(scored: Scored) -> Any:
    return json.loads(scored.body)


def embed(fields: bytes) -> Any:
    return read(embeddings(b"{" + fields + b"}", "m", "id"))


def ranked(fields: bytes = b"") -> Any:
    return read(rerank(RERANK % fields, "m", "id"))


def test_embeddings_come_in_the_order_of_the_inputs() -> None:
    both = embed(b'"input":["a","b"]')["data"]
    assert [entry["index"] for entry in both] == [0, 1]
    for text, entry in zip((b"a", b"b"), both):
        alone = embed(b'"input":"' + text + b'"')["data"][0]
        assert alone["embedding"] == entry["embedding"]


def test_base64_holds_the_same_numbers_as_float() -> None:
    plain = embed(b'"input":"a"')["data"][0]["embedding"]
    coded = embed(b'"input":"a","encoding_format":"base64"')["data"][0]["embedding"]
    packed = base64.b64decode(coded)
    assert packed == struct.pack(f"<{len(plain)}f", *plain)


def test_dimensions_are_honoured() -> None:
    assert len(embed(b'"input":[1,2],"dimensions":5')["data"][0]["embedding"]) == 5


def test_embedding_usage_counts_all_inputs() -> None:
    expected = {"prompt_tokens": 3, "total_tokens": 3}
    assert embed(b'"input":["abcdefgh","a"]')["usage"] == expected


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b'"input":[]',
        b'"input":"a","dimensions":0',
        b'"input":"a","dimensions":4097',
        b'"input":"a","encoding_format":"hex"',
    ],
)
def test_embedding_that_cannot_be_made_is_refused(fields: bytes) -> None:
    with pytest.raises(BadAsk):
        embed(fields)


def test_rerank_puts_the_best_document_first() -> None:
    results = ranked()
    assert results[0]["index"] == 1
    assert results[0]["document"] == "the calm river"
    scores = [result["score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert {result["index"] for result in results} == {0, 1, 2}


def test_rerank_honours_top_n_and_return_documents() -> None:
    (only,) = ranked(b',"top_n":1,"return_documents":false')
    assert (only["index"], only["document"]) == (1, None)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"query":"a","documents":[]}',
        b'{"query":"a","documents":[1]}',
        b'{"query":"a","documents":["b"],"top_n":0}',
    ],
)
def test_rerank_that_cannot_be_done_is_refused(body: bytes) -> None:
    with pytest.raises(BadAsk):
        rerank(body, "m", "id")


def test_classify_labels_with_the_most_probable_class() -> None:
    (entry,) = read(classes(b'{"input":"a"}', "m", "id"))["data"]
    best = entry["probs"].index(max(entry["probs"]))
    assert entry["label"] == f"LABEL_{best}"
    assert entry["num_classes"] == len(entry["probs"])
