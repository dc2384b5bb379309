"""A simulated worker as an engine's clients see it, through httpx."""

import time
from typing import Any

import httpx
import pytest

from smgproxy.simulated.options import SimulatedOptions
from smgproxy.simulated.server import SimulatedServer
from tests.simulated.serving import eventually, serve

HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
GET_PATHS = [
    "/v1/models",
    "/health",
    "/health_generate",
    "/server_info",
    "/get_server_info",
    "/model_info",
    "/get_model_info",
    "/v1/loads",
    "/metrics",
]
POST_PATHS = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/classify",
    "/v1/systemone",
    "/v1/audio/transcriptions",
    "/generate",
    "/flush_cache",
]


@pytest.mark.parametrize("path", GET_PATHS)
def test_get_routes_answer_get_and_head_alike(path: str) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            full, head = await client.get(path), await client.head(path)
            assert full.status_code == head.status_code == 200
            assert head.content == b""
            for name in ("content-type", "content-length"):
                assert head.headers[name] == full.headers[name]
            assert int(full.headers["content-length"]) == len(full.content)

    serve(scenario)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("POST", path, "GET, HEAD") for path in GET_PATHS]
    + [(method, path, "POST") for path in POST_PATHS for method in ("GET", "HEAD")],
)
def test_wrong_method_is_405_and_names_the_right_one(
    method: str, path: str, allow: str
) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            response = await client.request(method, path)
            assert response.status_code == 405
            assert response.headers["allow"] == allow

    serve(scenario)


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/models/", "/loads", "/version"])
def test_unknown_path_is_404_in_openais_error_shape(path: str) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            response = await client.get(path)
            assert response.status_code == 404
            error = response.json()["error"]
            assert error.keys() == {"message", "type", "param", "code"}
            assert (error["type"], error["code"]) == ("NotFoundError", 404)

    serve(scenario)


def test_query_does_not_change_the_route() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/v1/loads?include=core")).status_code == 200

    serve(scenario)


@pytest.mark.parametrize("path", POST_PATHS[:-1])
@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'"text"'])
def test_bad_body_is_400(path: str, body: bytes) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            response = await client.post(path, content=body)
            assert response.status_code == 400
            error = response.json()["error"]
            if path == "/v1/messages":
                assert response.json()["type"] == "error"
                assert error["type"] == "invalid_request_error"
            else:
                assert error["type"] == "BadRequestError"
                assert (error["param"], error["code"]) == (None, 400)
            assert server.worker.batch.started_total == 0

    serve(scenario)


def test_flush_cache_succeeds() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.post("/flush_cache")).status_code == 200

    serve(scenario)


def test_gateway_takes_the_worker_for_sglang() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            (card,) = (await client.get("/v1/models")).json()["data"]
            assert (card["id"], card["owned_by"]) == ("tiny", "sglang")
            told = (await client.get("/server_info")).json()
            assert told["served_model_name"] == "tiny"
            told = (await client.get("/model_info")).json()
            assert told["is_generation"] is True

    serve(scenario, SimulatedOptions(model="tiny", ttft_ms=0, tokens_per_second=0))


def test_loads_and_metrics_show_what_runs_now() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            body = HI | {"stream": True, "ignore_eos": True}
            path = "/v1/chat/completions"
            async with client.stream("POST", path, json=body) as stream:
                tokens = stream.aiter_raw()
                await anext(tokens)
                loads = (await client.get("/v1/loads")).json()
                (load,) = loads["loads"]
                assert load["num_running_reqs"] == 1
                assert load["num_waiting_reqs"] == 0
                assert load["gen_throughput"] == 50
                assert load["num_used_tokens"] > 3
                assert loads["aggregate"]["total_running_reqs"] == 1
                page = (await client.get("/metrics")).text
                assert 'sglang:num_running_reqs{model_name="sim-model"} 1.0' in page
            await eventually(lambda: server.worker.batch.running == 0)
            page = (await client.get("/metrics")).text
            assert 'num_running_reqs{model_name="sim-model"} 0.0' in page
            assert 'num_aborted_requests_total{model_name="sim-model"} 1.0' in page

    serve(scenario, SimulatedOptions(ttft_ms=1, tokens_per_second=50))


def test_metrics_escape_the_model_name() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            page = (await client.get("/metrics")).text
            assert '{model_name="a\\"b\\\\c"}' in page

    options = SimulatedOptions(model='a"b\\c', ttft_ms=0, tokens_per_second=0)
    serve(scenario, options)


def test_stream_events_arrive_one_by_one_at_the_set_pace() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            body = HI | {"stream": True, "max_tokens": 5}
            path = "/v1/chat/completions"
            began, reads = time.monotonic(), []
            async with client.stream("POST", path, json=body) as stream:
                async for _ in stream.aiter_raw():
                    reads.append(time.monotonic() - began)
            # Not earlier than set; how much later is the machine's affair.
            assert len(reads) >= 3
            assert reads[0] >= 0.1
            assert reads[-1] >= 0.1 + 4 / 50

    serve(scenario, SimulatedOptions(ttft_ms=100, tokens_per_second=50))


def test_whole_answer_takes_as_long_as_its_tokens() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            began = time.monotonic()
            body = HI | {"max_tokens": 5}
            await client.post("/v1/chat/completions", json=body)
            assert time.monotonic() - began >= 0.1 + 5 / 50

    serve(scenario, SimulatedOptions(ttft_ms=100, tokens_per_second=50))


def test_large_prompt_is_answered() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            text = "word " * (4 * 1024 * 1024)
            response = await client.post("/generate", json={"text": text})
            assert response.json()["meta_info"]["prompt_tokens"] == len(text) // 4

    serve(scenario)
