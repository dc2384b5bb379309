"""Every answer of the realtime routes that is an error: status, headers, body."""

from __future__ import annotations

import pytest

from smgproxy.admission.keys import Keys, Secret
from smgproxy.fleet.worker import WorkerState
from tests.e2e.asking import check_bad_text, check_envelope
from tests.e2e.stage import Stage, play
from tests.fakes.client import Answer, post
from tests.fakes.websocket import KEY, RealtimeWorker, accept, echo, upgrade
from tests.fakes.worker import Connection, Received, Script

_HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY.decode(),
}


def _get(query: str = "?model=m", method: str = "GET", **changes: str | None) -> bytes:
    fields = dict(_HANDSHAKE)
    for name, value in changes.items():
        name = name.replace("_", "-")
        if value is None:
            fields.pop(name)
        else:
            fields[name] = value
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} /v1/realtime{query} HTTP/1.1\r\nHost: g\r\n{lines}\r\n".encode()


def _asked(request: bytes, *scripts: Script, **rooms: object) -> Answer:
    """What one request gets of a gateway with one realtime worker."""
    found: list[Answer] = []

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        found.append(await client.ask(request))
        client.close()

    play(scene, *scripts or (echo,), kind=RealtimeWorker, **rooms)
    return found[0]


@pytest.mark.parametrize(
    "request_bytes, text",
    [
        (_get(""), "The query parameter `model` is missing"),
        (_get("?model="), "The query parameter `model` is missing"),
        (_get("?intent=transcription"), "The query parameter `model` is missing"),
        (
            _get("?model=m&model=m"),
            "The query parameter `model` is given more than once",
        ),
        (
            _get("?" + "&".join("a=b" for _ in range(70))),
            "The query has too many parameters",
        ),
        (
            b"GET /v1/realtime HTTP/1.1\r\nHost: g\r\n\r\n",
            "The query parameter `model` is missing",
        ),
    ],
)
def test_a_query_without_one_model_is_400_in_plain_text(
    request_bytes: bytes, text: str
) -> None:
    answer = _asked(request_bytes)
    assert check_bad_text(answer) == text


@pytest.mark.parametrize(
    "request_bytes, text",
    [
        (_get(Connection=None), "Expected a WebSocket upgrade (Connection, Upgrade)"),
        (
            _get(Connection="keep-alive"),
            "Expected a WebSocket upgrade (Connection, Upgrade)",
        ),
        (_get(Upgrade=None), "Expected a WebSocket upgrade (Connection, Upgrade)"),
        (_get(Upgrade="h2c"), "Expected a WebSocket upgrade (Connection, Upgrade)"),
        (_get(Sec_WebSocket_Version="8"), "Expected Sec-WebSocket-Version: 13"),
        (_get(Sec_WebSocket_Version=None), "Expected Sec-WebSocket-Version: 13"),
        (_get(Sec_WebSocket_Key=None), "Expected a Sec-WebSocket-Key"),
        (_get(Sec_WebSocket_Protocol="a b"), "Malformed Sec-WebSocket-Protocol"),
    ],
)
def test_what_is_no_opening_handshake_is_400_in_plain_text(
    request_bytes: bytes, text: str
) -> None:
    answer = _asked(request_bytes)
    assert check_bad_text(answer) == text
    assert answer.get("sec-websocket-version") == "13"


@pytest.mark.parametrize(
    "request_bytes",
    [
        _get(Connection="keep-alive, Upgrade"),
        _get(Upgrade="WebSocket"),
        _get(Sec_WebSocket_Key="malformed"),
    ],
)
def test_what_is_unusual_but_legal_is_accepted(request_bytes: bytes) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request_bytes)
        assert (await client.head()).status == 101
        client.close()

    play(scene, echo, kind=RealtimeWorker)


def test_head_is_treated_like_a_get_without_an_upgrade() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(b"HEAD /v1/realtime?model=m HTTP/1.1\r\nHost: g\r\n\r\n")
        answer = await client.answer(has_body=False)
        assert answer.status == 400
        client.close()

    play(scene, echo, kind=RealtimeWorker)


@pytest.mark.parametrize(
    "method, path, allow",
    [
        ("POST", "/v1/realtime", "GET,HEAD"),
        ("GET", "/v1/realtime/calls", "POST"),
        ("DELETE", "/v1/realtime/sessions", "POST"),
        ("PUT", "/v1/realtime/client_secrets", "POST"),
        ("GET", "/v1/realtime/transcription_sessions", "POST"),
    ],
)
def test_other_methods_are_405(method: str, path: str, allow: str) -> None:
    answer = _asked(f"{method} {path} HTTP/1.1\r\nHost: g\r\n\r\n".encode())
    assert answer.get("allow") == allow
    assert check_envelope(answer, 405, "method_not_allowed").endswith(f" {path})")


@pytest.mark.parametrize("path", ["/v1/realtime/", "/v1/realtime/calls/rtc_1/hangup"])
def test_other_paths_are_404(path: str) -> None:
    answer = _asked(f"POST {path} HTTP/1.1\r\nHost: g\r\n\r\n".encode())
    message = check_envelope(answer, 404, "unknown_url")
    assert message == f"Invalid URL (POST {path})"


_SESSION = b'{"type":"realtime","model":"%b"}'
_ROUTES = [
    lambda model: upgrade(f"?model={model}"),
    lambda model: post(_SESSION % model.encode(), "/v1/realtime/sessions"),
]


@pytest.mark.parametrize("make", _ROUTES, ids=["socket", "sessions"])
def test_a_model_that_nobody_serves_is_404(make: object) -> None:
    answer = _asked(make("nobody"))  # type: ignore[operator]
    message = check_envelope(answer, 404, "model_not_found")
    assert message == "No worker available for model 'nobody'"


@pytest.mark.parametrize("label", [{}, {"realtime": "false"}])
@pytest.mark.parametrize("make", _ROUTES, ids=["socket", "sessions"])
def test_a_model_without_a_labelled_worker_is_404(
    make: object, label: dict[str, str]
) -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].labels = label
        client = await stage.client()
        answer = await client.ask(make("m"))  # type: ignore[operator]
        check_envelope(answer, 404, "model_not_found")
        client.close()

    play(scene, echo, kind=RealtimeWorker)


@pytest.mark.parametrize("make", _ROUTES, ids=["socket", "sessions"])
def test_labelled_workers_that_are_down_are_503(make: object) -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        client = await stage.client()
        answer = await client.ask(make("m"))  # type: ignore[operator]
        check_envelope(answer, 503, "no_available_workers", retry_after="1")
        client.close()

    play(scene, echo, kind=RealtimeWorker)


@pytest.mark.parametrize("make", _ROUTES, ids=["socket", "sessions"])
def test_without_the_gateways_key_it_is_401(make: object) -> None:
    keys = Keys(shared=[Secret("sk")])
    answer = _asked(make("m"), keys=keys)  # type: ignore[operator]
    assert (answer.status, answer.body) == (401, b"")
    assert answer.get("www-authenticate") == 'Bearer realm="data-plane"'


# -- the worker's part ---------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 302, 401, 403, 404, 426, 429, 500, 503])
def test_a_workers_refusal_is_the_clients_answer(status: int) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(
            b'{"error":"no"}', status, "retry-after: 7\r\nlocation: /x\r\n"
        )

    answer = _asked(upgrade(), script)
    assert (answer.status, answer.body) == (status, b'{"error":"no"}')
    assert answer.get("retry-after") == "7"
    assert answer.get("x-smg-error-code") is None
    assert answer.get("x-smg-routed-worker-id")


def test_a_connection_goes_on_behind_a_refusal() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"no", 403)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(upgrade())).status == 403
        assert (await client.ask(upgrade())).status == 403
        client.close()

    play(scene, script, kind=RealtimeWorker)


def test_a_worker_that_cannot_be_reached_is_500_before_the_101() -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        client = await stage.client()
        answer = await client.ask(upgrade())
        check_envelope(answer, 500, "call_upstream_connection_failed")
        client.close()

    play(scene, echo, kind=RealtimeWorker)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_worker_that_closes_before_its_answer_is_500(how: str) -> None:
    async def script(connection: Connection, request: Received) -> None:
        getattr(connection, how)()

    answer = _asked(upgrade(), script)
    check_envelope(answer, 500, "call_upstream_request_error")


def test_a_worker_that_does_not_answer_in_time_is_504() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.until_gone()

    limits = {"realtime_handshake_timeout_secs": 1}
    answer = _asked(upgrade(), script, realtime=limits)
    check_envelope(answer, 504, "call_upstream_timeout")


_OK = "HTTP/1.1 101 Switching Protocols\r\n"


@pytest.mark.parametrize(
    "head",
    [
        _OK + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        _OK + "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: wrong\r\n\r\n",
        _OK + "Upgrade: websocket\r\n\r\n",
        _OK + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 banana\r\n\r\n",
    ],
)
def test_an_answer_that_is_no_handshake_is_502(head: str) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(head.encode())
        await connection.until_gone()

    answer = _asked(upgrade(), script)
    check_envelope(answer, 502, "call_upstream_request_error")


@pytest.mark.parametrize(
    "field",
    [
        "Sec-WebSocket-Protocol: other\r\n",
        "Sec-WebSocket-Protocol: one, two\r\n",
        "Sec-WebSocket-Extensions: x-other\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate\r\n",
    ],
)
def test_an_answer_to_what_was_not_offered_is_502(field: str) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await accept(connection, request, field)
        await connection.until_gone()

    request = upgrade(headers="Sec-WebSocket-Protocol: one, two\r\n")
    check_envelope(_asked(request, script), 502, "call_upstream_request_error")


def test_an_interim_answer_before_the_101_is_skipped() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await echo(connection, request)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(upgrade())
        assert (await client.head()).status == 101
        client.close()

    play(scene, script, kind=RealtimeWorker)
