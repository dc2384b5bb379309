"""However a stream is cut and whatever it says, each field's text stays what it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smgproxy.wire.reslice import MOST_CHARACTERS, Reslicer

TEXT = st.text(st.characters(codec="utf-8"), max_size=400)
CALL = st.fixed_dictionaries(
    {
        "index": st.integers(0, 2),
        "function": st.fixed_dictionaries({"arguments": TEXT}),
    },
    optional={"id": st.just("t"), "type": st.just("function")},
)
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": st.one_of(st.none(), TEXT),
        "reasoning": TEXT,
        "reasoning_content": TEXT,
        "tool_calls": st.lists(CALL, max_size=2),
        "unknown": st.integers(),
    },
)
CHOICE = st.fixed_dictionaries(
    {"index": st.just(0), "delta": DELTA},
    optional={
        "finish_reason": st.sampled_from([None, "stop"]),
        "logprobs": st.sampled_from([None, {"content": []}]),
    },
)
EVENT = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, max_size=2)},
    optional={"id": st.just("c"), "usage": st.sampled_from([None, {"a": 1}])},
)
ENDS = st.sampled_from(["\n\n", "\r\n\r\n", "\r\r"])
FRAME = st.one_of(
    EVENT.map(lambda event: "data: " + json.dumps(event, ensure_ascii=False)),
    st.sampled_from([": ping", "event: x\ndata: {}", "data: {broken", "data: [DONE]"]),
)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A stream, and the same cut into reads."""
    frames = draw(st.lists(st.tuples(FRAME, ENDS), max_size=12))
    stream = "".join(frame + end for frame, end in frames).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    return stream, [stream[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def texts_of(stream: bytes) -> dict[Any, str]:
    """Each field's text over all events."""
    found: dict[Any, str] = {}

    def add(field: Any, text: Any) -> None:
        if text:
            found[field] = found.get(field, "") + text

    lines = stream.replace(b"\r", b"\n").decode().split("\n")
    for line in lines:
        if line.startswith('data: {"') and line.endswith("}"):
            for choice in json.loads(line[6:]).get("choices", ()):
                for name, value in choice["delta"].items():
                    if name == "tool_calls":
                        for call in value:
                            add(call["index"], call["function"]["arguments"])
                    elif name not in ("role", "unknown"):
                        add(name, value)
    return found


@given(pieces(), st.sets(st.integers(0, 12)))
def test_every_field_adds_up_to_the_workers_text(
    cut: tuple[bytes, list[bytes]], pauses: set[int]
) -> None:
    stream, reads = cut
    reslicer = Reslicer()
    out = b""
    for place, read in enumerate(reads):
        out += reslicer.feed(read, float(place))
        if place in pauses:
            out += reslicer.pause()
    out += reslicer.finish()
    assert texts_of(out) == texts_of(stream)


@given(st.lists(TEXT, max_size=10))
def test_no_slice_of_plain_text_is_too_long(texts: list[str]) -> None:
    reslicer = Reslicer()
    out = b""
    for text in texts:
        event = {"choices": [{"index": 0, "delta": {"content": text}}]}
        out += reslicer.feed(b"data: " + json.dumps(event).encode() + b"\n\n", 0)
    out += reslicer.finish()
    for line in out.decode().split("\n"):
        if line.startswith("data: "):
            delta = json.loads(line[6:])["choices"][0]["delta"]
            assert len(delta["content"]) <= MOST_CHARACTERS
