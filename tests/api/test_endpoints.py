"""The table of routes: which path and method leads where."""

from __future__ import annotations

import pytest

from smgproxy.api.endpoints import (
    DEFAULT_ID_PREFIX,
    ID_PREFIXES,
    INFERENCE,
    MAX_QUERY_FIELDS,
    ControlRequest,
    Endpoint,
    Routes,
    action_of,
)
from smgproxy.api.replies import Reply, json_reply
from smgproxy.core.access import Access
from smgproxy.core.errors import MethodNotAllowed, UnknownUrl
from smgproxy.core.message import RequestHead


async def listing(request: ControlRequest) -> Reply:
    return json_reply(200, [])


async def one(request: ControlRequest) -> Reply:
    return json_reply(200, {})


CHAT = INFERENCE[0]


def _head(method: str, path: str, query: str = "") -> RequestHead:
    return RequestHead(method, path, query, [])


@pytest.fixture
def routes() -> Routes:
    routes = Routes()
    routes.add("POST", CHAT.path, CHAT)
    routes.add("GET", "/workers", listing)
    routes.add("POST", "/workers", one)
    routes.add("GET", "/workers/{id}", one)
    routes.add("DELETE", "/workers/{id}", listing)
    return routes


def test_a_literal_path_leads_to_its_route(routes: Routes) -> None:
    route, params = routes.match("/v1/chat/completions")
    assert route is not None
    assert route.template == "/v1/chat/completions"
    assert not params
    assert action_of(route, _head("POST", "/v1/chat/completions")) is CHAT


def test_methods_of_a_path_lead_to_different_places(routes: Routes) -> None:
    route, _ = routes.match("/workers")
    assert action_of(route, _head("GET", "/workers")) is listing
    assert action_of(route, _head("POST", "/workers")) is one


def test_head_goes_wherever_get_does(routes: Routes) -> None:
    route, _ = routes.match("/workers")
    assert action_of(route, _head("HEAD", "/workers")) is listing


def test_a_name_stands_for_one_part_of_the_path(routes: Routes) -> None:
    route, params = routes.match("/workers/abc-1")
    assert route is not None
    assert route.template == "/workers/{id}"
    assert params == {"id": "abc-1"}
    assert action_of(route, _head("DELETE", "/workers/abc-1")) is listing


@pytest.mark.parametrize(
    "path",
    [
        *("/", "", "*", "/workers/", "/workers/a/b", "/workers//", "/Workers"),
        *("//workers", "/workers/a/", "/%77orkers", "/v1/chat/completions/"),
        *("/metrics", "/v1/chat", "/workersx", "h:443"),
    ],
)
def test_any_other_path_is_unknown(routes: Routes, path: str) -> None:
    route, params = routes.match(path)
    assert route is None
    assert not params
    with pytest.raises(UnknownUrl) as caught:
        action_of(route, _head("GET", path))
    assert caught.value.status == 404
    assert caught.value.code == "unknown_url"
    assert caught.value.message == f"Invalid URL (GET {path})"


@pytest.mark.parametrize("method", ["PUT", "TRACE", "OPTIONS", "get", "BREW"])
def test_a_known_path_refuses_other_methods_and_names_its_own(
    routes: Routes, method: str
) -> None:
    route, _ = routes.match("/workers")
    with pytest.raises(MethodNotAllowed) as caught:
        action_of(route, _head(method, "/workers"))
    assert caught.value.status == 405
    assert caught.value.code == "method_not_allowed"
    assert caught.value.message == f"Invalid URL ({method} /workers)"
    assert caught.value.headers == ((b"allow", b"GET,POST,HEAD"),)


def test_head_of_a_route_without_get_is_refused(routes: Routes) -> None:
    route, _ = routes.match(CHAT.path)
    with pytest.raises(MethodNotAllowed) as caught:
        action_of(route, _head("HEAD", CHAT.path))
    assert caught.value.headers == ((b"allow", b"POST"),)


def test_a_method_is_answered_once(routes: Routes) -> None:
    with pytest.raises(AssertionError):
        routes.add("GET", "/workers", one)


def test_query_gives_the_first_of_each_name_decoded() -> None:
    request = ControlRequest(_head("GET", "/", "a=1&b=%20x+y&a=2&c"), {}, b"", b"id")
    assert request.query() == {"a": "1", "b": " x y", "c": ""}


def test_query_is_bounded() -> None:
    query = "&".join(f"n{number}=v" for number in range(500))
    request = ControlRequest(_head("GET", "/", query), {}, b"", b"id")
    assert len(request.query()) == MAX_QUERY_FIELDS


def test_paths_of_inference_routes_are_unique() -> None:
    paths = [endpoint.path for endpoint in INFERENCE]
    assert len(set(paths)) == len(paths)


def test_only_messages_speaks_the_anthropic_dialect() -> None:
    paths = [e.path for e in INFERENCE if e.is_anthropic]
    assert paths == ["/v1/messages", "/v1/messages/count_tokens"]


def test_embeddings_and_their_like_never_stream() -> None:
    silent = {endpoint.name for endpoint in INFERENCE if not endpoint.may_stream}
    assert silent == {"embeddings", "classify", "rerank", "decisions", "other"}


def test_request_ids_begin_as_their_route_says() -> None:
    assert ID_PREFIXES["/v1/chat/completions"] == b"chatcmpl-"
    assert ID_PREFIXES["/v1/messages"] == b"msg_"
    assert DEFAULT_ID_PREFIX == b"req-"
    assert set(ID_PREFIXES) <= {endpoint.path for endpoint in INFERENCE}


def test_an_endpoint_cannot_be_changed() -> None:
    endpoint = Endpoint("/x", "x", CHAT.schema)
    with pytest.raises(AttributeError):
        endpoint.path = "/y"  # type: ignore[misc]


def test_route_is_the_control_planes_unless_it_is_said_to_be_more_open(
    routes: Routes,
) -> None:
    route, _ = routes.match("/workers")
    assert route is not None and route.access is Access.CONTROL
    routes.add("GET", "/health", one, Access.PUBLIC)
    public, _ = routes.match("/health")
    assert public is not None and public.access is Access.PUBLIC


def test_methods_of_a_path_cannot_differ_in_access(routes: Routes) -> None:
    with pytest.raises(AssertionError):
        routes.add("PUT", "/workers", one, Access.PUBLIC)
