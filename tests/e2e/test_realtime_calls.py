"""The realtime routes beside the socket: bodies as sent, models found, answers back."""

from __future__ import annotations

import json

import pytest

from tests.e2e.asking import check_bad_body, check_envelope
from tests.e2e.stage import Stage, play
from tests.fakes.client import Answer
from tests.fakes.websocket import RealtimeWorker
from tests.fakes.worker import Connection, Received

_SDP = b"v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
_CALLS = "/v1/realtime/calls"


def _post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: g\r\nContent-Type: {kind}\r\n"
        f"Authorization: Bearer sk\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def _form(*parts: tuple[str, bytes], end: bytes = b"--") -> bytes:
    body = b"".join(
        b'--bb\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
        % (name.encode(), content)
        for name, content in parts
    )
    return body + b"--bb" + end + b"\r\n"


_FORM = "multipart/form-data; boundary=bb"


def _asked(
    request: bytes, status: int = 200, headers: str = "", body: bytes = b'{"id":"x"}'
) -> tuple[Answer, list[Received]]:
    """The answer, and what the worker got."""
    found: list[Answer] = []
    received: list[Received] = []

    async def script(connection: Connection, request: Received) -> None:
        received.append(request)
        await connection.answer(body, status, headers)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        found.append(await client.ask(request))
        client.close()

    play(scene, script, kind=RealtimeWorker)
    return found[0], received


_GOOD = [
    ("sessions", b'{"type": "realtime",  "model":"m", "new_field": 1.0}'),
    ("sessions", b'{"model":"m"}'),
    ("sessions", b'{"audio":{"input":{"transcription":{"model":"m"}}}}'),
    ("sessions", b'{"model":null,"input_audio_transcription":{"model":"m"}}'),
    (
        "client_secrets",
        b'{"expires_after":{}, "session":{"type":"realtime","model":"m"}}',
    ),
    (
        "client_secrets",
        b'{"session":{"type":"transcription","audio":{"input":'
        b'{"transcription":{"model":"m"}}}}}',
    ),
    ("transcription_sessions", b'{"type":"transcription","model":"m"}'),
    ("transcription_sessions", b'{"input_audio_transcription":{"model":"m"}}'),
]


@pytest.mark.parametrize("name, body", _GOOD)
def test_a_json_body_goes_on_as_it_was_sent(name: str, body: bytes) -> None:
    path = f"/v1/realtime/{name}"
    answer, received = _asked(_post(path, body), headers="x-more: 1\r\n")
    assert (answer.status, answer.body) == (200, b'{"id":"x"}')
    assert answer.get("x-smg-routed-worker-id")
    (got,) = received
    assert (got.path, got.body) == (path, body)
    assert got.get("authorization") == "Bearer sk"
    assert got.get("content-type") == "application/json"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("sessions", "realtime_sessions"),
        ("client_secrets", "realtime_client_secrets"),
        ("transcription_sessions", "realtime_transcription"),
    ],
)
def test_metrics_call_a_route_by_the_contracts_label(name: str, label: str) -> None:
    body = next(body for route, body in _GOOD if route == name)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(_post(f"/v1/realtime/{name}", body))
        assert answer.status == 200
        assert list(stage.gateway.router_stats.requests) == [("m", label, False)]
        client.close()

    play(scene, kind=RealtimeWorker)


def test_a_large_body_goes_on_as_it_was_sent() -> None:
    body = b'{"model":"m","instructions":"%b"}' % (b"x" * 2_000_000)
    answer, (got,) = _asked(_post("/v1/realtime/sessions", body))
    assert (answer.status, got.body) == (200, body)


def _renamed(request: bytes) -> Received:
    """What a worker gets of a request where "rt" stands for "m"."""
    received: list[Received] = []

    async def script(connection: Connection, request: Received) -> None:
        received.append(request)
        await connection.answer(b"{}")

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(request)).status == 200
        client.close()

    play(scene, script, kind=RealtimeWorker, aliases={"model_aliases": ("rt=m",)})
    return received[0]


@pytest.mark.parametrize("name, body", _GOOD)
def test_an_alias_becomes_the_name_it_stands_for_and_nothing_else_is_changed(
    name: str, body: bytes
) -> None:
    path = f"/v1/realtime/{name}"
    # What is left of the old text shows that nothing else was written anew.
    sent = body.replace(b'"m"', b'"rt"').replace(b"{}", b'{ "a": 1.0 }')
    got = _renamed(_post(path, sent))
    want = json.loads(body.replace(b"{}", b'{ "a": 1.0 }'))
    assert json.loads(got.body) == want
    assert b'{ "a": 1.0 }' in got.body or b"expires_after" not in body


def test_an_alias_in_a_field_given_twice_is_the_last_ones() -> None:
    body = b'{"audio":7,"audio":{"input":{"transcription":{"model":"rt"}}}}'
    got = _renamed(_post("/v1/realtime/sessions", body))
    assert json.loads(got.body)["audio"]["input"]["transcription"]["model"] == "m"


def test_a_query_means_nothing_to_the_json_routes() -> None:
    path = "/v1/realtime/sessions?model=nobody&x=1"
    answer, (got,) = _asked(_post(path, b'{"model":"m"}'))
    assert (answer.status, got.path) == (200, "/v1/realtime/sessions")


_BAD = [
    ("sessions", b"{", "json_parse_error"),
    ("sessions", b"[]", "json_parse_error"),
    ("sessions", b'{"type":"transcription","model":"m"}', "json_parse_error"),
    ("sessions", b'{"type":"realtime"}', 400),
    ("sessions", b'{"model":""}', 400),
    ("sessions", b'{"model":7}', 400),
    ("sessions", b'{"model":["m"]}', 400),
    ("sessions", b'{"audio":{"input":["m"]}}', 400),
    ("sessions", b'{"type":7,"model":"m"}', "json_parse_error"),
    ("sessions", b'{"model":"m","x":}', "json_parse_error"),
    ("sessions", b'{"model":"m","x":' + b"[" * 100_000, "json_parse_error"),
    ("sessions", b'{"model":"m"} {}', "json_parse_error"),
    ("client_secrets", b'{"session":["m"]}', "json_parse_error"),
    ("client_secrets", b'{"model":"m"}', "json_parse_error"),
    ("client_secrets", b'{"session":{"type":"other","model":"m"}}', "json_parse_error"),
    ("client_secrets", b'{"session":{"type":"realtime"}}', 400),
    ("transcription_sessions", b'{"type":"realtime","model":"m"}', "json_parse_error"),
    ("transcription_sessions", b'{"type":"transcription"}', 400),
]


@pytest.mark.parametrize("name, body, code", _BAD)
def test_a_json_body_that_names_no_model_is_400(
    name: str, body: bytes, code: str | int
) -> None:
    answer, received = _asked(_post(f"/v1/realtime/{name}", body))
    check_bad_body(answer, code)
    assert received == []


def test_a_json_route_asks_for_json() -> None:
    request = _post("/v1/realtime/sessions", b'{"model":"m"}', "text/plain")
    answer, _ = _asked(request)
    message = check_bad_body(answer, "json_parse_error")
    assert message == "Expected request with `Content-Type: application/json`"


@pytest.mark.parametrize("status", [400, 429, 503])
def test_a_workers_error_is_relayed_after_one_attempt(status: int) -> None:
    request = _post("/v1/realtime/sessions", b'{"model":"m"}')
    answer, received = _asked(request, status, body=b"busy")
    assert (answer.status, answer.body, len(received)) == (status, b"busy", 1)
    assert answer.get("x-smg-error-code") is None


def test_what_makes_something_at_its_worker_is_sent_once() -> None:
    async def script(connection: Connection, request: Received) -> None:
        if len(stage_of[0].worker.received) == 2:
            connection.reset()  # without an answer
        else:
            await connection.answer(b"{}")

    stage_of: list[Stage] = []

    async def scene(stage: Stage) -> None:
        stage_of.append(stage)
        request = _post("/v1/realtime/sessions", b'{"model":"m"}')
        client = await stage.client()
        assert (await client.ask(request)).status == 200
        answer = await client.ask(request)
        check_envelope(answer, 500, "call_upstream_request_error")
        worker = stage.worker
        # The first one's connection was idle: it might have died.
        assert (len(worker.received), worker.accepted) == (2, 2)
        assert stage.gateway.upstream.resends == 0
        client.close()

    play(scene, script, kind=RealtimeWorker)


# -- calls ---------------------------------------------------------------------------


def test_an_offer_goes_on_as_it_is_and_location_comes_back_as_ours() -> None:
    request = _post(_CALLS + "?x=1&model=m", _SDP, "application/sdp")
    location = "Location: http://worker:8000/v1/realtime/calls/rtc_1?a=b\r\n"
    answer, (got,) = _asked(request, 201, location, body=_SDP)
    assert (answer.status, answer.body) == (201, _SDP)
    assert answer.get("location") == "/v1/realtime/calls/rtc_1?a=b"
    assert (got.path, got.body) == (_CALLS + "?model=m", _SDP)
    assert got.get("content-type") == "application/sdp"
    assert got.get("authorization") == "Bearer sk"


def test_a_location_without_a_host_stays_as_it_is() -> None:
    request = _post(_CALLS + "?model=m", _SDP, "application/sdp; charset=utf-8")
    answer, _ = _asked(request, 201, "Location: /v1/realtime/calls/rtc_1\r\n")
    assert answer.get("location") == "/v1/realtime/calls/rtc_1"


def test_a_form_goes_on_as_it_is_under_the_sessions_model() -> None:
    session = b'{"type":"realtime","model":"m","unknown":1}'
    body = _form(("other", b"x"), ("session", session), ("sdp", _SDP))
    answer, (got,) = _asked(_post(_CALLS + "?model=nobody", body, _FORM), 201)
    assert answer.status == 201
    assert (got.path, got.body) == (_CALLS + "?model=m", body)
    assert got.get("content-type") == _FORM


def test_an_offer_for_an_alias_is_for_what_it_stands_for() -> None:
    got = _renamed(_post(_CALLS + "?model=rt", _SDP, "application/sdp"))
    assert (got.path, got.body) == (_CALLS + "?model=m", _SDP)


def test_an_alias_in_a_forms_session_becomes_the_name_it_stands_for() -> None:
    parts = [("other", b"x"), ("session", b'{"model":"%b","x":1.0}'), ("sdp", _SDP)]
    sent, want = (
        _form(parts[0], ("session", parts[1][1] % name), parts[2])
        for name in (b"rt", b"m")
    )
    got = _renamed(_post(_CALLS, sent, _FORM))
    assert (got.path, got.body) == (_CALLS + "?model=m", want)


def test_the_parameters_of_a_form_are_read_as_its_worker_reads_them() -> None:
    kind = 'multipart/form-data; note="; boundary=no"; Boundary="b \\"1"'
    field = b'--b "1\r\nContent-Disposition: form-data; filename="; name=%b"; name="%b"'
    fields = ((b"sdp", b"x", b"."), (b"x", b"sdp", _SDP), (b"x", b"session", b"%b"))
    form = b"".join((field + b"\r\n\r\n%b\r\n") % one for one in fields) + b'--b "1--'
    got = _renamed(_post(_CALLS, form % b'{"model":"rt"}', kind))
    assert (got.path, got.body) == (_CALLS + "?model=m", form % b'{"model":"m"}')


_SESSION = ("session", b'{"model":"m"}')
_BAD_CALLS = [
    ("json", _CALLS, b"{}", "application/json", "invalid_content_type"),
    ("no model", _CALLS, _SDP, "application/sdp", "missing_model"),
    ("empty model", _CALLS + "?model=", _SDP, "application/sdp", "missing_model"),
    ("no v=0", _CALLS + "?model=m", b"o=x\r\n", "application/sdp", "invalid_sdp"),
    ("empty", _CALLS + "?model=m", b"", "application/sdp", "invalid_sdp"),
    ("junk", _CALLS + "?model=m", b"v=0\r\njunk\r\n", "application/sdp", "invalid_sdp"),
    ("no boundary", _CALLS, _form(), "multipart/form-data", "invalid_multipart"),
    ("no sdp", _CALLS, _form(_SESSION), _FORM, "missing_sdp"),
    ("no session", _CALLS + "?model=m", _form(("sdp", _SDP)), _FORM, "missing_model"),
    (
        *("model elsewhere", _CALLS + "?model=m"),
        *(_form(("sdp", _SDP), ("session", b"{}")), _FORM, "missing_model"),
    ),
    (
        *("bad session", _CALLS, _form(("sdp", _SDP), ("session", b"{"))),
        *(_FORM, "invalid_session_json"),
    ),
    ("bad sdp", _CALLS, _form(("sdp", b"x"), _SESSION), _FORM, "invalid_sdp"),
    (
        *("session cut off", _CALLS, _form(("sdp", _SDP), _SESSION)[:-12]),
        *(_FORM, "unreadable_session"),
    ),
    (
        *("sdp cut off", _CALLS, _form(_SESSION, ("sdp", _SDP))[:-12]),
        *(_FORM, "unreadable_sdp"),
    ),
]


@pytest.mark.parametrize(
    "path, body, kind, code",
    [one[1:] for one in _BAD_CALLS],
    ids=[one[0] for one in _BAD_CALLS],
)
def test_a_call_that_lacks_something_is_400_with_its_code(
    path: str, body: bytes, kind: str, code: str
) -> None:
    answer, received = _asked(_post(path, body, kind))
    check_envelope(answer, 400, code)
    assert received == []


def test_a_call_for_an_unknown_model_is_404() -> None:
    answer, _ = _asked(_post(_CALLS + "?model=no", _SDP, "application/sdp"))
    check_envelope(answer, 404, "model_not_found")
