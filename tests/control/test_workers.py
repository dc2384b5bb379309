import uuid
from typing import Any

import pytest
import ujson

from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.worker import WorkerState
from tests.control.stage import NOBODY, A, B, Stage
from tests.fakes.engine import sglang


@pytest.fixture
def it() -> Stage:
    return Stage()


def refusal(it: Stage, method: str, path: str, value: Any) -> tuple[int, Any, Any]:
    reply = it.ask(method, path, value)
    body = ujson.loads(reply.body)
    assert list(body) == ["error", "code"]
    assert reply.headers == []
    return reply.status, body["code"], body["error"]


def test_adding_is_accepted_with_the_place_to_look(it: Stage) -> None:
    reply = it.ask("POST", "/workers", {"url": A})
    body = ujson.loads(reply.body)
    location = f"/workers/{body['worker_id']}"
    assert reply.status == 202
    assert reply.headers == [(b"location", location.encode())]
    assert list(body.items()) == [
        ("status", "accepted"),
        ("worker_id", str(uuid.UUID(body["worker_id"]))),
        ("url", A),
        ("location", location),
        ("message", "Worker addition queued for background processing"),
    ]


def test_a_worker_is_shown_with_its_fields_in_the_contracts_order(it: Stage) -> None:
    worker = it.add(
        api_key="k",
        labels={"a": "b"},
        health={"timeout_secs": 2},
        http_pool={"timeout_secs": 9},
        resilience={"cb_failure_threshold": 4},
        overload={"token_usage": 0.5},
    )
    worker.load = 3
    worker.engine_load = {"loads": []}
    reply = it.ask("GET", f"/workers/{worker.id}")
    assert reply.status == 200
    shown = ujson.loads(reply.body)
    assert list(shown) == [
        *("id", "model_id", "url", "models", "worker_type", "connection_mode"),
        *("runtime_type", "labels", "priority", "cost", "health", "overload"),
        *("http_pool", "resilience"),
        *("max_connection_attempts", "is_healthy", "status", "load", "http2"),
        "engine_load",
    ]
    assert shown["id"] == worker.id
    assert (shown["model_id"], shown["url"]) == ("m1", A)
    assert (shown["is_healthy"], shown["status"]) == (True, "ready")
    assert (shown["load"], shown["max_connection_attempts"]) == (3, 20)
    assert shown["health"] == {"timeout_secs": 2}


def test_a_workers_key_is_never_shown(it: Stage) -> None:
    worker = it.add(api_key="very-secret")
    assert b"very-secret" not in it.ask("GET", "/workers").body
    assert b"very-secret" not in it.ask("GET", f"/workers/{worker.id}").body


def test_a_worker_that_still_starts_is_shown_with_defaults_and_its_job(
    it: Stage,
) -> None:
    spec = {"url": A, "labels": {"a": "b"}, "priority": 3}
    worker_id = it.json("POST", "/workers", spec)["worker_id"]
    shown = it.json("GET", f"/workers/{worker_id}")
    timestamp = shown["job_status"].pop("timestamp")
    assert isinstance(timestamp, int)
    assert shown == {
        "id": worker_id,
        "url": A,
        "worker_type": "regular",
        "connection_mode": "http",
        "runtime_type": "unspecified",
        "priority": 50,
        "cost": 1.0,
        "max_connection_attempts": 20,
        "is_healthy": False,
        "status": "pending",
        "load": 0,
        "http2": False,
        "job_status": {
            "job_type": "AddWorker",
            "worker_url": A,
            "status": "processing",
            "message": None,
        },
    }
    assert it.json("GET", "/workers")["workers"] == []


def test_workers_are_listed_and_counted(it: Stage) -> None:
    it.add(A)
    it.add(B)
    listed = it.json("GET", "/workers")
    assert [one["url"] for one in listed["workers"]] == [A, B]
    assert listed["total"] == 2
    assert listed["stats"] == {
        "prefill_count": 0,
        "decode_count": 0,
        "regular_count": 2,
    }


def test_the_list_is_narrowed_to_a_model_or_its_alias(it: Stage) -> None:
    it.add(A, models=[{"id": "x/1", "aliases": ["y z"]}])
    it.add(B)
    for query, urls in (("x%2F1", [A]), ("y+z", [A]), ("m1", [B]), ("no", [])):
        listed = it.json("GET", f"/workers?model={query}")
        assert [one["url"] for one in listed["workers"]] == urls
        assert listed["stats"]["regular_count"] == listed["total"] == len(urls)


def test_the_list_knows_a_model_by_the_names_that_clients_may_use() -> None:
    it = Stage(aliases={"nick": "x/1"})
    it.add(A, models=[{"id": "x/1"}])
    it.add(B)
    listed = it.json("GET", "/workers?model=nick")
    assert [one["url"] for one in listed["workers"]] == [A]


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-json"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/workers"),
        ("PUT", f"/workers/{NOBODY}"),
        ("PATCH", f"/workers/{NOBODY}"),
    ],
)
def test_a_body_must_say_that_it_is_json(
    it: Stage, method: str, path: str, kind: str | None
) -> None:
    reply = it.ask(method, path, {"url": A}, kind=kind)
    assert reply.status == 400
    assert ujson.loads(reply.body) == {
        "error": "Missing Content-Type: application/json header",
        "code": "BAD_REQUEST",
    }


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "application/vnd.api+json"]
)
def test_other_names_of_json_are_taken(it: Stage, kind: str) -> None:
    assert it.ask("POST", "/workers", {"url": A}, kind=kind).status == 202


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'"\xff"', b'{"url":"\\ud800"}', b"[" * 5000, b'{"a":NaN}'],
)
def test_a_body_that_is_not_json_is_refused(it: Stage, body: bytes) -> None:
    status, code, text = refusal(it, "POST", "/workers", body)
    assert (status, code) == (400, "BAD_REQUEST")
    assert text.startswith("JSON syntax error: Failed to parse the request body as")


def test_a_spec_that_cannot_be_carried_out_is_refused_with_its_fault(
    it: Stage,
) -> None:
    assert refusal(it, "POST", "/workers", {}) == (
        400,
        "BAD_REQUEST",
        "Invalid JSON data: Failed to deserialize the JSON body into the target "
        "type: missing field `url`",
    )


def test_a_url_that_is_registered_is_a_conflict(it: Stage) -> None:
    worker = it.add()
    assert refusal(it, "POST", "/workers", {"url": A}) == (
        409,
        "WORKER_ALREADY_EXISTS",
        f"Worker already exists at URL '{A}' with ID {worker.id}. Use PUT "
        f"/workers/{worker.id} to replace or PATCH /workers/{worker.id} to update.",
    )


def test_a_url_that_is_being_registered_is_a_conflict(it: Stage) -> None:
    worker_id = it.json("POST", "/workers", {"url": A})["worker_id"]
    assert refusal(it, "POST", "/workers", {"url": A}) == (
        409,
        "WORKER_CREATE_IN_PROGRESS",
        f"Worker creation already in progress for URL '{A}' with ID {worker_id}. "
        f"Poll GET /workers/{worker_id}.",
    )


def test_a_full_job_queue_is_an_error_of_the_gateway() -> None:
    it = Stage(FleetOptions(job_queue_capacity=1, job_queue_concurrency=1))
    it.ask("POST", "/workers", {"url": "http://h:1"})
    it.ask("POST", "/workers", {"url": "http://h:2"})
    status, code, _ = refusal(it, "POST", "/workers", {"url": "http://h:3"})
    assert (status, code) == (500, "INTERNAL_SERVER_ERROR")


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_an_id_that_is_none_is_refused(it: Stage, method: str) -> None:
    status, code, text = refusal(it, method, "/workers/x", {"url": A})
    assert (status, code) == (400, "BAD_REQUEST")
    assert text.startswith("Invalid worker_id 'x' (expected UUID). Error: ")


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_an_id_that_nobody_has_is_not_found(it: Stage, method: str) -> None:
    assert refusal(it, method, f"/workers/{NOBODY}", {"url": A}) == (
        404,
        "WORKER_NOT_FOUND",
        f"Worker {NOBODY} not found",
    )


def test_an_id_may_be_written_in_capitals(it: Stage) -> None:
    worker = it.add()
    assert it.ask("GET", f"/workers/{worker.id.upper()}").status == 200


@pytest.mark.parametrize(
    ("method", "value", "what"),
    [
        ("PUT", {"url": A}, "update"),
        ("PATCH", {}, "update"),
        ("DELETE", None, "removal"),
    ],
)
def test_changes_are_accepted(it: Stage, method: str, value: Any, what: str) -> None:
    worker = it.add()
    reply = it.ask(method, f"/workers/{worker.id}", value)
    assert (reply.status, ujson.loads(reply.body)) == (
        202,
        {
            "status": "accepted",
            "worker_id": worker.id,
            "message": f"Worker {what} queued for background processing",
        },
    )


def test_overload_limits_out_of_range_are_accepted_and_the_worker_never_comes(
    it: Stage,
) -> None:
    spec = {"url": A, "overload": {"token_usage": 2}}
    reply = it.ask("POST", "/workers", spec)
    assert reply.status == 202
    worker_id = ujson.loads(reply.body)["worker_id"]
    assert it.ask("GET", f"/workers/{worker_id}").status == 404


def test_put_with_limits_out_of_range_fails_later_and_changes_nothing(
    it: Stage,
) -> None:
    worker = it.add(priority=3)
    spec = {"url": A, "overload": {"waiting_requests": 0}}
    assert it.ask("PUT", f"/workers/{worker.id}", spec).status == 202
    job = it.json("GET", f"/workers/{worker.id}")["job_status"]
    assert (job["job_type"], job["status"]) == ("AddWorker", "failed")
    assert "Must be >= 1" in job["message"]
    assert (worker.priority, worker.overload) == (3, None)


@pytest.mark.parametrize(
    "spec",
    [
        {"labels": {"tool_parser": "nope"}},
        {"models": [{"id": "m1"}, {"id": "m2", "reasoning_parser": "Qwen3"}]},
    ],
)
def test_an_unknown_parser_is_accepted_and_the_worker_never_comes(
    it: Stage, spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    reply = it.ask("POST", "/workers", {"url": A, **spec})
    assert reply.status == 202
    worker_id = ujson.loads(reply.body)["worker_id"]
    assert it.ask("GET", f"/workers/{worker_id}").status == 404
    assert f"Failed job: type=AddWorker, worker={A}" in caplog.text
    assert it.engines.asked == []


def test_put_with_an_unknown_parser_shows_why_it_failed(it: Stage) -> None:
    worker = it.add()
    spec = {"url": A, "models": [{"id": "m1", "tool_parser": "nope"}]}
    assert it.ask("PUT", f"/workers/{worker.id}", spec).status == 202
    job = it.json("GET", f"/workers/{worker.id}")["job_status"]
    assert (job["job_type"], job["status"], job["message"]) == (
        "AddWorker",
        "failed",
        "Invalid value for field 'models[0].tool_parser': "
        "unknown tool-call parser 'nope'",
    )
    assert "tool_parser" not in worker.models[0]


def test_ranks_are_shown_and_put_is_refused_where_engines_are_several_workers() -> None:
    it = Stage(FleetOptions(dp_aware=True))
    for url in (A, f"{A}@0", f"{A}@1"):
        it.engines.tables[url] = sglang(**{"/server_info": {"dp_size": 2}})
    worker_id = it.json("POST", "/workers", {"url": A})["worker_id"]
    shown = it.json("GET", "/workers")["workers"]
    assert [(one["url"], one["dp_rank"], one["dp_size"]) for one in shown] == [
        (f"{A}@0", 0, 2),
        (f"{A}@1", 1, 2),
    ]
    status, code, why = refusal(it, "PUT", f"/workers/{worker_id}", {"url": A})
    assert (status, code) == (400, "BAD_REQUEST")
    assert "--dp-aware" in why
    assert refusal(it, "PUT", f"/workers/{NOBODY}", {"url": A})[0] == 404


def test_put_must_name_the_same_url(it: Stage) -> None:
    worker = it.add()
    assert refusal(it, "PUT", f"/workers/{worker.id}", {"url": A + "/"}) == (
        400,
        "BAD_REQUEST",
        f"URL mismatch: worker has URL '{A}' but request body has '{A}/'. URL "
        "changes are not supported via PUT. Use DELETE + POST instead.",
    )


def test_patch_changes_a_worker(it: Stage) -> None:
    worker = it.add()
    it.ask("PATCH", f"/workers/{worker.id}", {"cost": 3.5, "labels": {"q": "r"}})
    shown = it.json("GET", f"/workers/{worker.id}")
    assert (shown["cost"], shown["labels"]["q"]) == (3.5, "r")


def test_a_deleted_worker_is_draining_and_then_gone(it: Stage) -> None:
    worker = it.add()
    assert it.ask("DELETE", f"/workers/{worker.id}", kind=None).status == 202
    shown = it.json("GET", f"/workers/{worker.id}")
    assert (shown["status"], shown["is_healthy"]) == ("draining", False)
    assert "job_status" not in shown
    it.clock.advance(5)
    assert it.ask("GET", f"/workers/{worker.id}").status == 404


def test_a_removal_that_came_too_early_shows_as_failed(it: Stage) -> None:
    worker_id = it.json("POST", "/workers", {"url": A})["worker_id"]
    assert it.ask("DELETE", f"/workers/{worker_id}").status == 202
    job = it.json("GET", f"/workers/{worker_id}")["job_status"]
    assert (job["job_type"], job["status"]) == ("RemoveWorker", "failed")
    assert job["message"] == f"Worker {A} not found"


def test_deeply_nested_metadata_can_be_shown_again(it: Stage) -> None:
    nested: Any = 1
    for _ in range(900):
        nested = [nested]
    it.add(models=[{"id": "m", "metadata": nested}])
    assert it.ask("GET", "/workers").status == 200


def test_a_state_is_shown_in_lower_snake_case(it: Stage) -> None:
    worker = it.add()
    it.registry.set_state(worker, WorkerState.NOT_READY)
    assert it.json("GET", f"/workers/{worker.id}")["status"] == "not_ready"
