"""The routes that give numbers instead of words: embeddings, rerank, classify.

Pure: a body in, a body out, or a `BadAsk`.
"""

import base64
import struct
from typing import Literal

import msgspec

from smgproxy.simulated.bodies import BadAsk, PromptField, decode, read_prompts
from smgproxy.simulated.engine import (
    DEFAULT_DIMENSIONS,
    MAX_DIMENSIONS,
    Prompt,
    classify,
    digest,
    embed,
    score,
)
from smgproxy.simulated.replies import to_json

MAX_DOCUMENTS = 1024
_CLASSES = 2


class EmbeddingBody(msgspec.Struct, kw_only=True):
    """`POST /v1/embeddings`."""

    input: PromptField
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None


class RerankBody(msgspec.Struct, kw_only=True):
    """`POST /v1/rerank`."""

    query: str
    documents: list[str]
    model: str | None = None
    top_n: int | None = None
    return_documents: bool | None = None


class ClassifyBody(msgspec.Struct, kw_only=True):
    """`POST /v1/classify`."""

    input: PromptField
    model: str | None = None


class Scored:
    """A finished body and the size of its prompts; it takes no decoding step."""

    __slots__ = ("body", "prompt_tokens")

    def __init__(self, reply: object, prompt_tokens: int) -> None:
        self.body = to_json(reply)
        self.prompt_tokens = prompt_tokens


def embeddings(body: bytes | bytearray, served_model: str, ident: str) -> Scored:
    """Give each input its vector, as numbers or as base64 of 32-bit floats."""
    asked = decode(body, EmbeddingBody)
    dimensions = asked.dimensions
    if dimensions is None:
        dimensions = DEFAULT_DIMENSIONS
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise BadAsk(f"dimensions must be between 1 and {MAX_DIMENSIONS}")
    prompts = read_prompts(asked.input, "input")
    is_base64 = asked.encoding_format == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _packed(vector) if is_base64 else vector,
        }
        for index, vector in enumerate(embed(prompt, dimensions) for prompt in prompts)
    ]
    size = _total(prompts)
    model = asked.model or served_model
    reply = {"object": "list", "data": data, "model": model, "usage": _usage(size)}
    return Scored(reply, size)


def rerank(body: bytes | bytearray, served_model: str, ident: str) -> Scored:
    """Order documents by how well they answer the query, best first.

    In SGLang's shape, a bare list: a gateway that makes an answer of its own of
    it looks for that from an SGLang worker.
    """
    asked = decode(body, RerankBody)
    if not 1 <= len(asked.documents) <= MAX_DOCUMENTS:
        raise BadAsk(f"documents must hold 1 to {MAX_DOCUMENTS} entries")
    if asked.top_n is not None and asked.top_n < 1:
        raise BadAsk("top_n must be at least 1")
    scores = [score(asked.query, document) for document in asked.documents]
    ranked = sorted(range(len(scores)), key=lambda index: -scores[index])
    shows_documents = asked.return_documents is not False
    sizes = [digest((asked.query, text)).tokens for text in asked.documents]
    results = [
        {
            "score": scores[index],
            "document": asked.documents[index] if shows_documents else None,
            "index": index,
            "meta_info": {"id": f"rerank-{ident}", "prompt_tokens": sizes[index]},
        }
        for index in ranked[: asked.top_n]
    ]
    return Scored(results, sum(sizes))


def classes(body: bytes | bytearray, served_model: str, ident: str) -> Scored:
    """Give each input a label, with the probability of every label."""
    asked = decode(body, ClassifyBody)
    prompts = read_prompts(asked.input, "input")
    data = []
    for index, prompt in enumerate(prompts):
        odds = classify(prompt, _CLASSES)
        data.append(
            {
                "index": index,
                "label": f"LABEL_{odds.index(max(odds))}",
                "probs": odds,
                "num_classes": len(odds),
            }
        )
    size = _total(prompts)
    reply = {
        "id": f"classify-{ident}",
        "object": "list",
        "model": asked.model or served_model,
        "data": data,
        "usage": _usage(size),
    }
    return Scored(reply, size)


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _total(prompts: tuple[Prompt, ...]) -> int:
    return sum(prompt.tokens for prompt in prompts)


def _usage(prompt_tokens: int) -> dict[str, int]:
    return {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
