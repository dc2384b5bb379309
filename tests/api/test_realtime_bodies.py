"""Realtime bodies of any size: the model is found in steps, and little is kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.api import realtime_calls
from smgproxy.api.realtime import (
    CALLS,
    CLIENT_SECRETS,
    SESSIONS,
    model_of_body,
    renamed,
)
from smgproxy.api.realtime_calls import CallModel, model_of_call
from smgproxy.core.errors import BadCall
from smgproxy.core.message import RequestHead

T = TypeVar("T")
SDP = b"v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
SESSION = b'{"model":"m"}'
MEGABYTE = 1_000_000


def run(steps: Generator[None, None, T]) -> tuple[T, int]:
    """What the steps come to, and how many they were."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result, count
        count += 1


def head(path: str, content_type: bytes, query: str = "") -> RequestHead:
    return RequestHead("POST", path, query, [(b"content-type", content_type)])


def ask_json(body: bytes, path: str = SESSIONS) -> tuple[tuple[str, object], int]:
    return run(model_of_body(path, head(path, b"application/json"), body))


def ask_form(body: bytes) -> tuple[CallModel, int]:
    kind = b"multipart/form-data; boundary=b"
    return run(model_of_call(head(CALLS, kind), body))


def ask_sdp(offer: bytes) -> str:
    return run(model_of_call(head(CALLS, b"application/sdp", "model=m"), offer))[0].name


def form(*parts: tuple[bytes, bytes]) -> bytes:
    pieces = [
        b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % part
        for part in parts
    ]
    return b"".join(pieces) + b"--b--\r\n"


# -- JSON ----------------------------------------------------------------------------


def test_each_step_goes_over_the_body_once_at_most() -> None:
    found, count = ask_json(b'{"type":"realtime","model":"m"}')
    assert (found, count) == (("m", ("model",)), 1)
    body = b'{"session":{"audio":{"input":{"transcription":{"model":"m"}}}}}'
    found, count = ask_json(body, CLIENT_SECRETS)
    place = ("session", "audio", "input", "transcription", "model")
    assert (found, count) == (("m", place), 5)


def test_nothing_is_kept_of_fields_that_are_not_read() -> None:
    fields = b"".join(b'"field%d":1,' % number for number in range(MEGABYTE // 10))
    body = b"{" + fields + b'"model":"m"}'
    tracemalloc.start()
    try:
        assert ask_json(body)[0] == ("m", ("model",))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_model_of_a_body_with_very_many_fields_is_renamed_in_steps() -> None:
    fields = b"".join(b'"model%d":1,' % number for number in range(100_000))
    inner = b'{"model":7,' + fields + b'"model" : "rt"}'
    body = b'{ "session":' + inner + b',"x":1.0}'
    [found, place] = ask_json(body, CLIENT_SECRETS)[0]
    assert (found, place) == ("rt", ("session", "model"))
    made, count = run(renamed(body, ("session", "model"), "m"))
    # Of fields of one name the last counts, and all of them are given its value.
    expected = inner.replace(b'"rt"', b'"m"').replace(b":7", b':"m"')
    assert made == b'{ "session":' + expected + b',"x":1.0}'
    assert count > 5, "others had their turns"


# -- offers --------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"", b"\r\n", b"\n", b"\r\na=\r\n", b"\r\na="])
def test_lines_of_an_offer_may_end_as_they_do(end: bytes) -> None:
    assert ask_sdp(SDP + b"a=x" + end) == "m"


@pytest.mark.parametrize(
    "offer",
    [
        b"",
        b"v=0",
        b"v=0\r\n",
        b"v=1\r\ns=-\r\n",
        SDP + b"?",
        SDP + b"\r\n",
        SDP + b"a\r",
    ]
    + [SDP + b"a=x\r", SDP + b"a=x\rb=y\r\n"],
)
def test_what_is_no_offer_is_refused(offer: bytes) -> None:
    with pytest.raises(BadCall, match="not a session description"):
        ask_sdp(offer)


def test_a_long_offer_is_checked_by_its_beginning_and_costs_no_memory() -> None:
    offer = SDP + b"a=x\r\n" * (2 * MEGABYTE)
    tracemalloc.start()
    try:
        assert ask_sdp(offer) == "m"
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    with pytest.raises(BadCall):
        ask_sdp(SDP + b"?\r\n" + offer)


# -- forms ---------------------------------------------------------------------------


def test_a_form_is_searched_in_steps() -> None:
    found, count = ask_form(
        form((b"other", b"x"), (b"sdp", SDP), (b"session", SESSION))
    )
    assert found == CallModel("m", SESSION, ("model",))
    assert count == 5, "one a part, one for the end, one for the session"


def test_a_delimiter_is_found_wherever_steps_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"before\r\n" + form((b"sdp", SDP), (b"session", SESSION))
    for step in range(1, len(body)):
        monkeypatch.setattr(realtime_calls, "_BYTES_A_STEP", step)
        found, count = ask_form(body)
        assert found.session == SESSION
        assert count >= len(body) // step // 2


@pytest.mark.parametrize("before", [b"", b"preamble\r\n", b"--\r\n"])
def test_what_stands_around_the_parts_means_nothing(before: bytes) -> None:
    body = before + form((b"sdp", SDP), (b"session", SESSION)) + b"--b\r\nepilogue"
    assert ask_form(body)[0].name == "m"


def test_the_first_of_each_part_counts() -> None:
    other = b'{"model":"n"}'
    body = form((b"session", SESSION), (b"sdp", SDP), (b"session", other))
    assert ask_form(body)[0].session == SESSION


def test_a_head_of_a_part_has_a_limit() -> None:
    line = b"X: x\r\n"
    body = b"--b\r\n" + line * 3000 + form((b"sdp", SDP))
    with pytest.raises(BadCall, match="too long a head"):
        ask_form(body)


def parts_by_split(body: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """The parts of a well-formed form, the plain way, and what follows them."""
    pieces = (b"\r\n" + body).split(b"\r\n--b")
    found: dict[bytes, bytes] = {}
    for piece in pieces[1:-1]:
        lines, _, content = piece.partition(b"\r\n\r\n")
        found.setdefault(lines.split(b'"')[1], content)
    return found, pieces[-1]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"sdp", b"session", b"other"]),
            st.sampled_from([SDP, SESSION, b"", b"\r\n", b"--", b"\r\n-"]),
        ),
        max_size=5,
    )
)
def test_parts_are_those_between_delimiters(parts: list[tuple[bytes, bytes]]) -> None:
    body = form(*parts)
    expected, last = parts_by_split(body)
    assert last == b"--\r\n"
    ok = expected.get(b"sdp") == SDP and expected.get(b"session") == SESSION
    try:
        found, _ = ask_form(body)
    except BadCall:
        assert not ok
    else:
        assert ok and found.session == SESSION
