"""Keys over real sockets: who is let in, and what the others get and leave behind."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from smgproxy.admission.keys import ControlKey, Keys, Role, Secret, TenantKey
from smgproxy.gateway import Gateway
from tests.e2e.asking import get
from tests.e2e.stage import Stage, eventually, play, settings
from tests.fakes.client import CHAT, Answer, post
from tests.fakes.worker import FakeWorker, say_ok

SHARED, RED = Secret("k-shared"), Secret("k-red")
KEYS = Keys([SHARED], [TenantKey("red", RED)])
ADMIN = ControlKey("ops", "Operations", Role.ADMIN, Secret("k-admin"))
USER = ControlKey("eye", "Viewer", Role.USER, Secret("k-user"))

SERVING = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/generate",
    "/rerank",
)
PUBLIC = ("/health", "/liveness", "/readiness", "/v1/models", "/loads")
UNKNOWN_WORKER = "/workers/00000000-0000-4000-8000-000000000000"
CONTROL = ("/workers", UNKNOWN_WORKER, "/get_loads")


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}\r\n"


def is_bare_401(answer: Answer) -> bool:
    return (
        answer.status == 401
        and answer.body == b""
        and answer.get("content-length") == "0"
        and answer.get("content-type") is None
        and answer.get("x-smg-error-code") is None
        and (answer.get("www-authenticate") or "").startswith("Bearer realm=")
        and answer.get("x-request-id") is not None
    )


@pytest.mark.parametrize("path", SERVING)
def test_serving_route_asks_for_a_key(path: str) -> None:
    async def scene(stage: Stage) -> None:
        for headers in ("", bearer("nope"), "X-Api-Key: k-shared\r\n"):
            assert is_bare_401(await stage.ask(post(path=path, headers=headers)))
        for token in ("k-shared", "k-red"):
            answer = await stage.ask(post(path=path, headers=bearer(token)))
            assert answer.status == 200
        assert len(stage.worker.received) == 2

    play(scene, keys=KEYS)


def test_control_plane_takes_the_shared_key_and_no_tenants() -> None:
    async def scene(stage: Stage) -> None:
        for path in CONTROL:
            for headers in ("", bearer("k-red"), bearer("nope")):
                assert is_bare_401(await stage.ask(get(path, headers=headers)))
            answer = await stage.ask(get(path, headers=bearer("k-shared")))
            assert answer.status in (200, 404)
        for method, path in (("POST", "/flush_cache"), ("DELETE", UNKNOWN_WORKER)):
            assert is_bare_401(await stage.ask(get(path, method)))

    play(scene, keys=KEYS)


def test_control_plane_with_keys_of_its_own() -> None:
    async def scene(stage: Stage) -> None:
        refused = await stage.ask(get("/workers", headers=bearer("k-shared")))
        assert is_bare_401(refused)
        assert refused.get("www-authenticate") == 'Bearer realm="control-plane"'
        forbidden = await stage.ask(get("/workers", headers=bearer("k-user")))
        assert forbidden.status == 403
        assert forbidden.get("content-type") == "text/plain; charset=utf-8"
        assert forbidden.get("x-smg-error-code") is None
        assert forbidden.body == (
            b"Admin role required for this control plane operation"
        )
        allowed = await stage.ask(get("/workers", headers=bearer("k-admin")))
        assert allowed.status == 200
        assert is_bare_401(await stage.ask(post(headers=bearer("k-admin"))))

    play(scene, keys=Keys([SHARED], control=[ADMIN, USER]))


def test_public_routes_ask_nobody() -> None:
    async def scene(stage: Stage) -> None:
        for path in PUBLIC:
            for headers in ("", bearer("nope"), "Authorization: \xff\r\n"):
                request = get(path, headers="").replace(
                    b"\r\n\r\n", b"\r\n" + headers.encode("latin-1") + b"\r\n"
                )
                assert (await stage.ask(request)).status == 200

    play(scene, keys=Keys([SHARED], [TenantKey("red", RED)], [ADMIN]))


def test_routes_that_do_not_exist_and_bodies_too_large_are_told_before() -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.ask(get("/nowhere"))).status == 404
        assert (await stage.ask(get("/v1/chat/completions"))).status == 405
        assert (await stage.ask(post(b"x" * 200))).status == 413

    play(scene, keys=KEYS, dispatch={"max_payload_size": 100})


def test_key_comes_before_the_body_is_judged() -> None:
    async def scene(stage: Stage) -> None:
        assert is_bare_401(await stage.ask(post(b"{")))
        assert (await stage.ask(post(b"{", headers=bearer("k-red")))).status == 400

    play(scene, keys=KEYS)


def test_body_of_a_refused_request_is_not_asked_for() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100000\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        answer = await client.answer()
        assert is_bare_401(answer)  # and no 100 before it
        assert await client.reader.read() == b""  # closed: its body is not waited for
        client.close()

    play(scene, keys=KEYS)


def test_refusals_do_not_end_a_connection_that_is_in_order() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        wrong, right = post(headers=bearer("nope")), post(headers=bearer("k-red"))
        await client.send(wrong + right + get("/workers") + wrong + right)
        statuses = [(await client.answer()).status for _ in range(5)]
        assert statuses == [401, 200, 401, 401, 200]
        client.close()

    play(scene, keys=KEYS)


def test_head_and_http_1_0_are_refused_alike() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(get("/workers", "HEAD") + get("/health", "HEAD"))
        assert (await client.head()).status == 401
        assert (await client.head()).status == 200
        client.close()
        old = await stage.client()
        await old.send(b"GET /workers HTTP/1.0\r\n\r\n")
        assert is_bare_401(await old.answer())
        assert await old.reader.read() == b""
        old.close()

    play(scene, keys=KEYS)


@pytest.mark.parametrize(
    "credential",
    [b"Bearer " + b"x" * 8000, b"Bearer \xff\xfe\x80", b"Bearer", b"\xc3\xa9", b""],
)
def test_odd_credentials_are_wrong_ones(credential: bytes) -> None:
    async def scene(stage: Stage) -> None:
        head, _, body = post().partition(b"\r\n\r\n")
        request = head + b"\r\nAuthorization: " + credential + b"\r\n\r\n" + body
        assert is_bare_401(await stage.ask(request))

    play(scene, keys=KEYS)


def test_refusals_are_counted_without_a_code() -> None:
    async def scene(stage: Stage) -> None:
        await stage.ask(post())
        await stage.ask(post(headers=bearer("k-red")))
        await eventually(lambda: len(stage.responses()) == 2)
        assert stage.responses() == {(401, ""): 1, (200, ""): 1}

    play(scene, keys=KEYS)


# -- towards the worker (ruling 23) --------------------------------------------------


def shown_to_worker(stage: Stage) -> list[str | None]:
    return [request.get("authorization") for request in stage.worker.received]


def test_gateway_key_is_replaced_by_the_workers_own() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].api_key = "w-own"
        for token in ("k-shared", "k-red"):
            await stage.ask(post(headers=bearer(token)))
        assert shown_to_worker(stage) == ["Bearer w-own"] * 2

    play(scene, keys=KEYS)


def test_gateway_key_passes_to_a_worker_without_a_key() -> None:
    async def scene(stage: Stage) -> None:
        await stage.ask(post(headers=bearer("k-red")))
        assert shown_to_worker(stage) == ["Bearer k-red"]

    play(scene, keys=KEYS)


def test_clients_own_credential_passes_where_no_key_is_asked_for() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].api_key = "w-own"
        for headers in (bearer("theirs"), bearer("k-admin"), ""):
            await stage.ask(post(headers=headers))
        assert shown_to_worker(stage) == [
            *("Bearer theirs", "Bearer w-own", "Bearer w-own"),
        ]

    play(scene, keys=Keys(control=[ADMIN]))


def test_start_up_workers_are_asked_with_the_shared_key() -> None:
    async def run() -> None:
        worker = FakeWorker()
        await worker.start()
        server = {"worker_urls": (worker.url,)}
        gateway = Gateway(settings(server=server, keys=KEYS), {})
        try:
            await gateway.start()
            await eventually(lambda: len(gateway.registry.all()) == 1)
            await eventually(lambda: gateway.registry.all()[0].models)
        finally:
            await gateway.close()
            await worker.stop()
        keys = {one.get("authorization") for one in worker.probed}
        assert keys == {None, "Bearer k-shared"}  # reachability is asked without

    uvloop.run(run())


def test_keys_are_in_no_log_line(capfd: pytest.CaptureFixture[str]) -> None:
    async def scene(stage: Stage) -> None:
        for headers in (bearer("k-red"), bearer("k-wrong"), ""):
            await stage.ask(post(CHAT, headers=headers))
        await asyncio.sleep(0)
        stage.gateway.request_log.flush()

    play(scene, say_ok, keys=KEYS, telemetry={"log_level": "debug"})
    out, err = capfd.readouterr()
    assert "401" in out + err
    for token in ("k-red", "k-wrong", "k-shared"):
        assert token not in out + err
