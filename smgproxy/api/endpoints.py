"""The table of routes: (method, path) to what answers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from smgproxy.api import (
    chat,
    classify,
    completions,
    decisions,
    embeddings,
    generate,
    messages,
    rerank,
    responses,
    systemone,
)
from smgproxy.api.replies import Reply
from smgproxy.api.schema import Schema
from smgproxy.core.access import Access
from smgproxy.core.errors import MethodNotAllowed, UnknownUrl
from smgproxy.core.exchange import Exchange
from smgproxy.core.message import RequestHead

MAX_QUERY_FIELDS = 64

# The worker's runtime, the body as it was read, its bytes.
Translate = Callable[[str, Any, bytes], systemone.SystemOne | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """An inference route that is forwarded to a worker, usually under the same path.

    ``name`` is the metrics label, ``schema`` reads the bodies; a route that may not
    stream answers whole even to ``"stream": true``. ``translate`` makes what a worker
    is asked instead of a body, if its engine has an API of its own for it.
    ``worker_path`` is where workers serve it, when it is an alias.
    """

    path: str
    name: str
    schema: Schema
    is_anthropic: bool = False
    may_stream: bool = True
    translate: Translate | None = None
    worker_path: str = ""

    def path_at_worker(self) -> str:
        """Where a worker is asked for it."""
        return self.worker_path or self.path


@dataclasses.dataclass(frozen=True, slots=True)
class FormEndpoint:
    """An inference route whose body is a form with a file in it."""

    path: str
    name: str
    is_anthropic: bool = False


AnyEndpoint = Endpoint | FormEndpoint

INFERENCE = (
    Endpoint("/v1/chat/completions", "chat", chat.SCHEMA),
    Endpoint("/v1/completions", "completions", completions.SCHEMA),
    Endpoint("/generate", "generate", generate.SCHEMA),
    Endpoint("/v1/messages", "messages", messages.SCHEMA, is_anthropic=True),
    Endpoint(
        "/v1/messages/count_tokens",
        "other",  # as the contract's metrics call it
        messages.COUNT_TOKENS,
        is_anthropic=True,
        may_stream=False,
    ),
    Endpoint("/v1/responses", "responses", responses.SCHEMA),
    Endpoint("/v1/embeddings", "embeddings", embeddings.SCHEMA, may_stream=False),
    Endpoint("/v1/classify", "classify", classify.SCHEMA, may_stream=False),
    Endpoint("/v1/rerank", "rerank", rerank.SCHEMA, may_stream=False),
    # SGLang serves the versioned path alone.
    Endpoint(
        "/rerank",
        "rerank",
        rerank.SCHEMA,
        may_stream=False,
        worker_path="/v1/rerank",
    ),
    Endpoint(
        "/v1/decisions",
        "decisions",
        decisions.SCHEMA,
        may_stream=False,
        translate=systemone.translate,
    ),
)

FORMS = (FormEndpoint("/v1/audio/transcriptions", "audio_transcriptions"),)

# Request ids made by the gateway begin with the route's prefix, whatever the method
# and the status; every other path has "req-".
ID_PREFIXES = {
    "/v1/chat/completions": b"chatcmpl-",
    "/v1/completions": b"cmpl-",
    "/generate": b"gnt-",
    "/v1/responses": b"resp-",
    "/v1/messages": b"msg_",
}
DEFAULT_ID_PREFIX = b"req-"


class ControlRequest:
    """A request for an answer of the gateway's own, its body read."""

    __slots__ = ("head", "params", "body", "request_id")

    def __init__(
        self, head: RequestHead, params: dict[str, str], body: bytes, request_id: bytes
    ) -> None:
        self.head = head
        self.params = params  # what the path's {names} stand for
        self.body = body
        self.request_id = request_id

    def query(self) -> dict[str, str]:
        """The query's fields, the first of each name; percent-decoded."""
        fields: dict[str, str] = {}
        pairs = parse_qsl(self.head.query, keep_blank_values=True)
        for name, value in pairs[:MAX_QUERY_FIELDS]:
            fields.setdefault(name, value)
        return fields


ControlHandler = Callable[[ControlRequest], Awaitable[Reply]]


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """A serving route with a story of its own, told by ``carry``.

    ``name`` is the metrics label.
    """

    path: str
    name: str
    carry: Callable[[Exchange], Awaitable[None]]


Action = AnyEndpoint | Carried | ControlHandler
_NO_PARAMS: dict[str, str] = {}


class Route:
    """One path template, its methods, and who may use them."""

    __slots__ = ("template", "access", "actions")

    def __init__(self, template: str, access: Access) -> None:
        self.template = template
        self.access = access
        self.actions: dict[str, Action] = {}

    def allow(self) -> bytes:
        """The Allow header's value; HEAD goes wherever GET does.

        CONNECT is left out: what RFC 8441 makes of it, HTTP/1.1 does with GET.
        """
        methods = [one for one in self.actions if one != "CONNECT"]
        if "GET" in methods:
            methods.append("HEAD")
        return ",".join(methods).encode()


class Routes:
    """Every route of one listener.

    A template is a literal path, or a literal prefix and one ``{name}`` that stands
    for the rest of the path up to the next slash, which there is none of.
    """

    __slots__ = ("_exact", "_prefixes")

    def __init__(self) -> None:
        self._exact: dict[str, Route] = {}
        self._prefixes: list[tuple[str, str, Route]] = []

    def add(
        self,
        method: str,
        template: str,
        action: Action,
        access: Access = Access.CONTROL,
    ) -> None:
        """Answer ``method`` on ``template`` with ``action``.

        Every method of a template has the same ``access``. A route that is added
        without one is the control plane's: nothing is public by mistake.
        """
        route = self._route_of(template, access)
        assert route.access is access, (template, access)
        assert method not in route.actions, (method, template)
        route.actions[method] = action

    def match(self, path: str) -> tuple[Route | None, dict[str, str]]:
        """The route of a path and its parameters; None when there is no such route."""
        route = self._exact.get(path)
        if route is not None:
            return route, _NO_PARAMS
        for prefix, name, candidate in self._prefixes:
            if path.startswith(prefix):
                rest = path[len(prefix) :]
                if rest and "/" not in rest:
                    return candidate, {name: rest}
        return None, _NO_PARAMS

    def _route_of(self, template: str, access: Access) -> Route:
        if "{" not in template:
            return self._exact.setdefault(template, Route(template, access))
        prefix, _, name = template.partition("{")
        for known, _, route in self._prefixes:
            if known == prefix:
                return route
        route = Route(template, access)
        self._prefixes.append((prefix, name.rstrip("}"), route))
        return route


def action_of(route: Route | None, head: RequestHead) -> Action:
    """What answers a request on its matched route.

    Raises UnknownUrl and MethodNotAllowed, each with its message naming the method
    and the path as sent.
    """
    if route is None:
        raise UnknownUrl(_invalid_url(head))
    action = route.actions.get("GET" if head.method == "HEAD" else head.method)
    if action is None:
        raise MethodNotAllowed(_invalid_url(head), ((b"allow", route.allow()),))
    return action


def _invalid_url(head: RequestHead) -> str:
    return f"Invalid URL ({head.method} {head.path})"
