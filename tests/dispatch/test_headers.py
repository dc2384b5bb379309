"""Header fields that cross the gateway, and those that do not."""

from __future__ import annotations

import pytest

from smgproxy.core.exchange import Exchange
from smgproxy.core.message import (
    WITHHELD_FROM_CLIENT,
    Headers,
    RequestHead,
    ResponseHead,
)
from smgproxy.dispatch.headers import headers_to_client, headers_to_worker
from smgproxy.fleet.worker import Worker
from tests.core.scripted import ScriptedSink, ScriptedSource

OWN: Headers = [(b"content-type", b"application/json"), (b"content-length", b"7")]


@pytest.fixture
def worker() -> Worker:
    return Worker("id-1", "http://127.0.0.1:8000/")


def sent(
    worker: Worker,
    *headers: tuple[bytes, bytes],
    id: bytes = b"id",
    has_gateway_key: bool = False,
) -> Headers:
    """What goes to the worker beside the fields of the gateway's own."""
    head = RequestHead("POST", "/generate", "", list(headers))
    fields = headers_to_worker(head, id, worker, 7, has_gateway_key)
    assert fields[:2] == OWN
    return fields[2:]


def relayed(worker: Worker, *headers: tuple[bytes, bytes]) -> Headers:
    head = RequestHead("POST", "/generate", "", [])
    exchange = Exchange(head, ScriptedSource(), ScriptedSink(), "127.0.0.1", 1.0)
    exchange.id = b"gnt-1"
    return headers_to_client(ResponseHead(200, list(headers), 0), exchange, worker)


def test_allowed_fields_pass_in_the_clients_order(worker: Worker) -> None:
    allowed: Headers = [
        (b"x-smg-routing-key", b"user-7"),
        (b"traceparent", b"00-1-2-01"),
        (b"tracestate", b"a=b"),
        (b"x-correlation-id", b"c"),
        (b"x-request-id-upstream", b"u"),
        (b"x-request-id-", b"bare prefix"),
        (b"anthropic-version", b"2023-06-01"),
        (b"anthropic-beta", b"tools"),
        (b"authorization", b"Bearer k"),
    ]
    assert sent(worker, *allowed) == allowed


@pytest.mark.parametrize(
    "name",
    [
        *(b"cookie", b"user-agent", b"accept", b"accept-encoding", b"host"),
        *(b"connection", b"te", b"upgrade", b"expect", b"transfer-encoding"),
        *(b"content-type", b"content-length", b"content-encoding"),
        *(b"forwarded", b"x-forwarded-for", b"x-real-ip", b"proxy-authorization"),
        *(b"x-trace-id", b"request-id", b"x-request-idx", b"x-api-key"),
        *(b"x-smg-target-worker", b"x-smg-routing-tokens", b"x-smg-tenant-id"),
    ],
)
def test_any_other_field_stays_here(worker: Worker, name: bytes) -> None:
    assert sent(worker, (name, b"v")) == []


@pytest.mark.parametrize(
    "name", [b"authorization", b"x-request-id", b"x-correlation-id"]
)
def test_of_repeated_credentials_and_ids_the_first_goes_alone(
    worker: Worker, name: bytes
) -> None:
    assert sent(worker, (name, b"1"), (name, b"2")) == [(name, b"1")]


@pytest.mark.parametrize("name", [b"tracestate", b"anthropic-beta", b"traceparent"])
def test_a_list_in_several_lines_goes_on_as_it_came(
    worker: Worker, name: bytes
) -> None:
    lines = ((name, b"a=1"), (b"x-correlation-id", b"c"), (name, b"b=2"))
    assert sent(worker, *lines) == list(lines)


def test_a_request_id_goes_along_only_if_the_client_sent_one(worker: Worker) -> None:
    assert sent(worker, id=b"gnt-made") == []
    assert sent(worker, (b"x-correlation-id", b"c"), id=b"c") == [
        (b"x-correlation-id", b"c")
    ]


def test_an_unusable_request_id_is_replaced_by_the_chosen_one(worker: Worker) -> None:
    assert sent(worker, (b"x-request-id", b"a b"), id=b"gnt-made") == [
        (b"x-request-id", b"gnt-made")
    ]


def test_an_unusable_correlation_id_is_replaced_where_it_stood_for_the_id(
    worker: Worker,
) -> None:
    bad = (b"x-correlation-id", b"a b")
    assert sent(worker, bad, id=b"gnt-made") == [(b"x-correlation-id", b"gnt-made")]
    good = (b"x-request-id", b"r")
    assert sent(worker, bad, good, id=b"r") == [bad, good]


def test_a_usable_request_id_stays_the_clients_whoever_decided(worker: Worker) -> None:
    theirs = (b"x-request-id", b"theirs")
    assert sent(worker, theirs, id=b"from-another-header") == [theirs]


def test_the_workers_own_key_is_for_requests_without_a_credential(
    worker: Worker,
) -> None:
    worker.api_key = "secret"
    assert sent(worker) == [(b"authorization", b"Bearer secret")]
    theirs = (b"authorization", b"Basic dTpw")
    assert sent(worker, theirs) == [theirs]


def test_a_gateways_key_gives_way_to_the_workers_own(worker: Worker) -> None:
    theirs, other = (b"authorization", b"Bearer gateway"), (b"traceparent", b"t")
    assert sent(worker, theirs, other, has_gateway_key=True) == [theirs, other]
    worker.api_key = "secret"
    own = (b"authorization", b"Bearer secret")
    assert sent(worker, theirs, other, has_gateway_key=True) == [other, own]
    assert sent(worker, theirs, theirs, has_gateway_key=True) == [own]


def test_an_answers_fields_pass_repeated_ones_too(worker: Worker) -> None:
    fields: Headers = [
        (b"content-type", b"application/json"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"content-encoding", b"gzip"),
        (b"server", b"uvicorn"),
        (b"date", b"Mon, 01 Jan 2024 00:00:00 GMT"),
        (b"location", b"/elsewhere"),
    ]
    own = [(b"x-smg-routed-worker-id", worker.routed_id), (b"x-request-id", b"gnt-1")]
    assert relayed(worker, *fields) == fields + own


@pytest.mark.parametrize("name", sorted(WITHHELD_FROM_CLIENT))
def test_hop_by_hop_fields_and_the_gateways_own_are_withheld(
    worker: Worker, name: bytes
) -> None:
    assert (name, b"theirs") not in relayed(worker, (name, b"theirs"))


def test_the_routed_worker_is_named_by_its_url_as_registered(worker: Worker) -> None:
    assert dict(relayed(worker))[b"x-smg-routed-worker-id"] == b"http://127.0.0.1:8000/"


def test_a_streamed_body_has_no_length(worker: Worker) -> None:
    head = RequestHead("POST", "/generate", "", [(b"x-smg-routing-tokens", b"1")])
    fields = headers_to_worker(head, b"id", worker, None)
    assert fields == [(b"content-type", b"application/json")]
