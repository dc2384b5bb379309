"""Deltas of a chat stream cut anew: sizes, order, and what passes as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smgproxy.wire.reslice import MOST_FRAME_BYTES, Reslicer

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "MM"}
DONE = b"data: [DONE]\n\n"


def event(delta: dict[str, Any], **more: Any) -> bytes:
    """One event with one choice."""
    reason = more.pop("finish_reason", None)
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    choice.update(more.pop("choice", {}))
    body = {**HEAD, "choices": [choice], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def deltas(stream: bytes) -> list[dict[str, Any]]:
    """The deltas of a stream's events."""
    found = []
    for frame in stream.split(b"\n\n"):
        if frame.startswith(b"data: {"):
            found.append(json.loads(frame[6:])["choices"][0]["delta"])
    return found


def sizes(stream: bytes, field: str = "content") -> list[int]:
    """How many characters each event has of a field."""
    return [len(each[field]) for each in deltas(stream) if field in each]


def test_small_deltas_leave_together_once_there_is_enough() -> None:
    reslicer = Reslicer()
    assert reslicer.feed(event({"content": "abcd"}) * 19, 0) == b""
    assert sizes(reslicer.feed(event({"content": "abcd"}), 0)) == [80]


@pytest.mark.parametrize(
    ("length", "cut"),
    [(403, [160, 160, 83]), (160, [160]), (161, [156]), (200, [160]), (164, [159])],
)
def test_a_large_delta_is_cut_and_no_cut_leaves_a_crumb(
    length: int, cut: list[int]
) -> None:
    reslicer = Reslicer()
    assert sizes(reslicer.feed(event({"content": "x" * length}), 0)) == cut
    left = length - sum(cut)
    assert sizes(reslicer.finish()) == ([left] if left else [])


def test_text_does_not_pass_what_another_field_said_in_between() -> None:
    said = [{"reasoning_content": "a"}, {"content": "b"}] * 2 + [{"content": "c"}]
    reslicer = Reslicer()
    out = reslicer.feed(b"".join(map(event, said)), 0) + reslicer.finish()
    assert deltas(out) == [*said[:3], {"content": "bc"}]


def test_a_slice_has_the_envelope_of_the_newest_event_in_compact_form() -> None:
    reslicer = Reslicer()
    out = reslicer.feed(
        event({"content": "é" * 79}) + event({"content": "!"}, id="c2"), 0
    )
    expected = {**HEAD, "id": "c2"}
    expected["choices"] = [
        {"index": 0, "delta": {"content": "é" * 79 + "!"}, "finish_reason": None}
    ]
    text = json.dumps(expected, separators=(",", ":"), ensure_ascii=False)
    assert out == f"data: {text}\n\n".encode()


def test_only_the_first_role_is_sent_and_at_once() -> None:
    reslicer = Reslicer()
    first = reslicer.feed(event({"role": "assistant", "content": ""}), 0)
    assert deltas(first) == [{"role": "assistant", "content": ""}]
    more = reslicer.feed(event({"role": "assistant", "content": "x" * 90}), 0)
    assert deltas(more) == [{"content": "x" * 90}]


def test_a_pause_lets_everything_go_but_crumbs() -> None:
    reslicer = Reslicer()
    reslicer.feed(event({"content": "tiny"}), 1.0)
    assert reslicer.pending_since is None
    reslicer.feed(event({"reasoning": "longer"}), 2.0)
    assert reslicer.pending_since == 2.0
    assert deltas(reslicer.pause()) == [{"reasoning": "longer"}]
    assert reslicer.pending_since is None
    assert deltas(reslicer.finish()) == [{"content": "tiny"}]


def test_text_leaves_before_the_finish_and_the_finish_keeps_its_place() -> None:
    reslicer = Reslicer()
    out = reslicer.feed(
        event({"content": "a"}) + event({"content": "b"}, finish_reason="stop"), 0
    )
    assert deltas(out) == [{"content": "ab"}, {}]
    assert b'"finish_reason":"stop"' in out.split(b"\n\n")[1]


@pytest.mark.parametrize(
    "frame",
    [
        b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n',
        b": ping\n\n",
        b"event: x\ndata: {}\n\n",
        b"data: {broken\n\n",
        b'data: {"error":{"message":"x"}}\r\n\r\n',
        event({"content": "b"}, choice={"logprobs": {"content": []}}),
        event({"refusal": "no"}),
    ],
)
def test_what_is_no_text_passes_in_its_place(frame: bytes) -> None:
    reslicer = Reslicer()
    out = reslicer.feed(event({"content": "held"}) + frame, 0)
    assert out.endswith(frame)
    assert deltas(out.removesuffix(frame)) == [{"content": "held"}]


def test_arguments_of_tool_calls_are_cut_each_on_its_own() -> None:
    def call(index: int, arguments: str) -> bytes:
        function = {"arguments": arguments}
        return event({"tool_calls": [{"index": index, "function": function}]})

    reslicer = Reslicer()
    named = {"index": 0, "id": "t", "function": {"name": "f", "arguments": "{"}}
    first = reslicer.feed(event({"content": "ok"}) + event({"tool_calls": [named]}), 0)
    assert deltas(first) == [{"content": "ok"}, {"tool_calls": [named]}]
    assert reslicer.feed(call(0, "a" * 40) + call(1, "b" * 40), 0) == b""
    out = reslicer.feed(call(1, "b" * 40), 0)
    assert [one["tool_calls"][0]["index"] for one in deltas(out)] == [0, 1]
    assert deltas(out)[1]["tool_calls"][0]["function"] == {"arguments": "b" * 80}


@pytest.mark.parametrize(
    "frame",
    [
        DONE,
        b'data: {"choices":[{"delta":{}},{"delta":{}}]}\n\n',
        b"data: " + b"x" * (MOST_FRAME_BYTES + 1),
    ],
)
def test_after_these_the_rest_passes_as_it_is(frame: bytes) -> None:
    reslicer = Reslicer()
    out = reslicer.feed(event({"content": "held"}) + frame, 0)
    assert out.endswith(frame)
    assert deltas(out.removesuffix(frame)) == [{"content": "held"}]
    assert reslicer.feed(event({"content": "z"}), 0) == event({"content": "z"})


def test_an_unfinished_frame_is_sent_when_the_stream_breaks() -> None:
    reslicer = Reslicer()
    assert reslicer.feed(event({"content": "held"}) + b"data: {", 0) == b""
    out = reslicer.finish()
    assert out.endswith(b"data: {")
    assert deltas(out.removesuffix(b"data: {")) == [{"content": "held"}]
