"""The usage a reply tells: whole bodies of each API, and the ends of streams."""

from __future__ import annotations

import pytest

from smgproxy.api.token_usage import TAIL_BYTES, Usage, read_usage, usage_of_tail

OPENAI = (
    b'{"id":"x","usage":{"prompt_tokens":7,"total_tokens":12,"completion_tokens":5}}'
)
DETAILS = b'"prompt_tokens_details":{"cached_tokens":3}'


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (OPENAI, Usage(7, 5)),
        (b'{"usage":{"input_tokens":7,"output_tokens":5}}', Usage(7, 5)),
        (b'{"usage":{"prompt_tokens":7,"total_tokens":7}}', Usage(7, None)),
        (b'{"usage":{"output_tokens":5}}', Usage(None, 5)),
        (
            b'{"text":"a","meta_info":{"prompt_tokens":7,"completion_tokens":5}}',
            Usage(7, 5),
        ),
        (
            b'{"usage":{"prompt_tokens":7,"completion_tokens":5,' + DETAILS + b"}}",
            Usage(7, 5),
        ),
        (
            b'[{"meta_info":{"prompt_tokens":7,"completion_tokens":5}},'
            b'{"meta_info":{"prompt_tokens":1,"completion_tokens":2}}]',
            Usage(8, 7),
        ),
        (
            b'{"type":"x","response":{"usage":{"input_tokens":7,"output_tokens":5}}}',
            Usage(7, 5),
        ),
        (b'{"message":"told in words","usage":{"prompt_tokens":7}}', Usage(7, None)),
        (b'{"response":"a text"}', None),
        (b'{"usage":null}', None),
        (b'{"usage":{}}', None),
        (b'{"usage":"many"}', None),
        (b'{"usage":{"prompt_tokens":"7"}}', None),
        (b'{"choices":[{"usage":{"prompt_tokens":7}}]}', None),
        (b"[]", None),
        (b"[1]", None),
        (b"", None),
        (b"not json", None),
        (OPENAI[:-1], None),
        (b"[" * 100_000, None),
    ],
)
def test_usage_of_a_whole_reply(body: bytes, usage: Usage | None) -> None:
    assert read_usage(body) == usage


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


CHUNK = event(b'{"choices":[{"delta":{"content":"hi"}}],"usage":null}')
DONE = event(b"[DONE]")


def test_last_chunk_of_a_chat_tells_it() -> None:
    assert usage_of_tail(CHUNK * 20 + event(OPENAI) + DONE) == Usage(7, 5)


def test_latest_of_running_counts_is_taken() -> None:
    early = event(b'{"usage":{"prompt_tokens":7,"completion_tokens":1}}')
    assert usage_of_tail(early + event(OPENAI) + DONE) == Usage(7, 5)


def test_stream_that_tells_none_has_none() -> None:
    assert usage_of_tail(CHUNK * 50 + DONE) is None
    assert usage_of_tail(b"") is None


def test_lines_may_end_in_cr_lf_and_stand_close_to_the_colon() -> None:
    tail = (b"data:" + OPENAI + b"\n\ndata:[DONE]\n\n").replace(b"\n", b"\r\n")
    assert usage_of_tail(tail) == Usage(7, 5)


def test_prompt_is_taken_from_an_earlier_event_when_the_last_leaves_it_out() -> None:
    start = (
        b'{"type":"message_start",'
        b'"message":{"usage":{"input_tokens":7,"output_tokens":1}}}'
    )
    delta = b'{"type":"message_delta","delta":{},"usage":{"output_tokens":5}}'
    assert usage_of_tail(event(start) + event(delta)) == Usage(7, 5)
    assert usage_of_tail(event(delta)) == Usage(None, 5)


def test_event_longer_than_the_tail_is_read_at_its_end() -> None:
    inside = (
        b'{"input_tokens":7,"input_tokens_details":{"cached_tokens":1},'
        b'"output_tokens":5}'
    )
    text = b'"output":"' + b"long answer " * 2000 + b'"'
    data = b'{"type":"response.completed","response":{%s,"usage":%s,"user":null}}'
    stream = event(data % (text, inside))
    assert len(stream) > TAIL_BYTES
    assert usage_of_tail(stream[-TAIL_BYTES:]) == Usage(7, 5)


def test_usage_inside_a_text_is_no_usage() -> None:
    said = rb'{"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":1}"}}]}'
    assert usage_of_tail(event(said)) is None
    # The same where the event's beginning is missing.
    assert usage_of_tail(said[10:] + b"\n\n" + DONE) is None


def test_tail_that_is_cut_anywhere_tells_the_truth_or_nothing() -> None:
    stream = CHUNK * 3 + event(OPENAI) + DONE
    for cut in range(len(stream)):
        assert usage_of_tail(stream[cut:]) in (Usage(7, 5), None)
        assert usage_of_tail(stream[: len(stream) - cut]) in (Usage(7, 5), None)
