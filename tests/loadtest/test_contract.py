"""The judge of the chaos trial: which answers a client may get from an unruly fleet."""

import json

import pytest

from loadtest.tools.contract import Answer, Stray
from loadtest.tools.misdeeds import EVENTS

WHOLE = [f'{{"echo":7,"seq":{seq}}}' for seq in range(EVENTS)]
BROKEN = '{"error":{"message":"Stream error: gone","type":"stream_error"}}'


def answer(status: str, body: bytes, code: str = "", is_stream: bool = False) -> Answer:
    return Answer(7, is_stream, status, code, bytearray(body), is_whole=True)


def stream(*events: str) -> Answer:
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    return answer("200", body, is_stream=True)


def test_a_request_asks_for_its_own_number() -> None:
    asked = json.loads(Answer(7, is_stream=True).request(3))
    assert (asked["user"], asked["stream"]) == ("7", True)
    assert asked["messages"][0]["content"].endswith("aaa")


def test_no_two_prompts_begin_alike() -> None:
    bodies = [json.loads(Answer(n, is_stream=True).request(0)) for n in range(1000)]
    begins = {body["messages"][0]["content"][:8] for body in bodies}
    assert len(begins) == 1000


@pytest.mark.parametrize("status", ["200", "429", "500", "503"])
def test_a_workers_own_answer_has_no_code(status: str) -> None:
    assert answer(status, b'{"echo":7}').label() == status


def test_the_gateways_answer_tells_its_code_twice() -> None:
    code = "call_upstream_timeout"
    body = json.dumps({"error": {"code": code}}).encode()
    assert answer("504", body, code).label() == f"504 {code}"
    with pytest.raises(Stray):
        answer("504", b'{"error":{"code":"another"}}', code).label()


def test_a_stream_is_whole_or_says_that_it_broke() -> None:
    assert stream(*WHOLE, "[DONE]").label() == "200"
    assert stream(*WHOLE[:2], BROKEN, "[DONE]").label() == "200 stream_error"
    assert stream(BROKEN, "[DONE]").label() == "200 stream_error"


@pytest.mark.parametrize(
    "wrong",
    [
        answer("200", b'{"echo":8}'),
        answer("502", b'{"echo":7}'),
        answer("200", b'{"echo":'),
        answer("500", b"[]", "call_upstream_timeout"),
        stream(*WHOLE[:2], "[DONE]"),
        stream(*WHOLE),
        stream(*reversed(WHOLE), "[DONE]"),
        stream(*WHOLE, '{"error":{"type":"another"}}', "[DONE]"),
        stream(),
        Answer(7, is_stream=False, status="200", body=bytearray(b'{"echo":7}')),
        Answer(7, is_stream=False),
    ],
    ids=(
        *("of_another", "no_such_status", "half", "another_code", "events_missing"),
        *("no_end", "out_of_order", "another_error", "empty", "cut", "nothing"),
    ),
)
def test_what_the_contract_does_not_have_is_a_stray(wrong: Answer) -> None:
    with pytest.raises(Stray):
        wrong.label()
