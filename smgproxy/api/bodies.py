"""From a request's bytes to a call: what is asked, and the body that asks for it."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import msgspec

from smgproxy.api.chat import ChatRequest
from smgproxy.api.chat_rules import hold_to_profile
from smgproxy.api.editing import Edits, edit_steps
from smgproxy.api.endpoints import Endpoint
from smgproxy.api.fields import Body
from smgproxy.api.profiles import select
from smgproxy.api.routing_inputs import (
    cache_fields,
    routing_ids,
    routing_rid,
    routing_text,
)
from smgproxy.api.steps import Steps, at_once
from smgproxy.core.errors import BadBody
from smgproxy.core.message import RequestHead


class Call:
    """What a request asks of a worker.

    ``body`` is the very object the client's bytes came in unless a rule changed them.
    ``model`` is the canonical name; ``request`` the body as it was read, None once it
    was let go;
    ``is_resliced`` whether the deltas of an event stream are cut anew.
    """

    __slots__ = ("model", "is_stream", "body", "request", "is_resliced")

    def __init__(
        self,
        model: str | None,
        is_stream: bool,
        body: bytes,
        request: Body,
        is_resliced: bool = False,
    ) -> None:
        self.model = model
        self.is_stream = is_stream
        self.body = body
        self.request: Body | None = request
        self.is_resliced = is_resliced

    def rename_steps(self, model: str) -> Steps[None]:
        """Ask for another model; the body that goes on names it, and is else the same.

        For a call whose body names one. What was read of it keeps the client's name.
        """
        self.model = model
        edits: Edits = {"model": msgspec.json.encode(model)}
        self.body = yield from edit_steps(self.body, edits)

    # -- what the choice of a worker may ask -----------------------------------------

    def text(self) -> str:
        """The prompt's text."""
        return routing_text(self.request)

    def token_ids(self) -> Sequence[int] | None:
        """The prompt's token ids, where the body has them."""
        return routing_ids(self.request)

    def rid(self) -> str | None:
        """The request's own id."""
        return routing_rid(self.request)

    def cache_fields(self) -> Sequence[str | None]:
        """What sets its cache entries apart from others'."""
        return cache_fields(self.request)


class BodyReader:
    """Reads bodies, with the aliases of one gateway."""

    __slots__ = ("_aliases",)

    def __init__(self, aliases: dict[str, str]) -> None:
        self._aliases = aliases

    def canonical(self, model: str) -> str:
        """What a model's name stands for."""
        return self._aliases.get(model, model)

    def check_type(self, head: RequestHead) -> None:
        """Refuse what the head says is no JSON. Raises BadBody."""
        _check_type(head.first.get(b"content-type"))

    def read(self, head: RequestHead, endpoint: Endpoint, body: bytes) -> Call:
        """Hold a body to the contract. Raises BadBody and InvalidField."""
        content_type = head.first.get(b"content-type")
        if content_type != b"application/json":
            _check_type(content_type)
        request = endpoint.schema.read(body)
        request.check()
        call, edits, messages = self._call(request, body)
        if messages is not None:
            edits["messages"] = at_once(messages)
        if edits:
            call.body = at_once(edit_steps(body, edits))
        return call

    def steps(
        self, head: RequestHead, endpoint: Endpoint, body: bytes
    ) -> Generator[None, None, Call]:
        """The same for a large body, in steps between which others have their turn."""
        _check_type(head.first.get(b"content-type"))
        request = yield from endpoint.schema.steps(body)
        yield
        request.check()
        yield
        call, edits, messages = self._call(request, body)
        if messages is not None:
            yield
            edits["messages"] = yield from messages
        if edits:
            yield
            call.body = yield from edit_steps(body, edits)
        return call

    def _call(
        self, request: Body, body: bytes
    ) -> tuple[Call, Edits, Generator[None, None, bytes] | None]:
        """The call, the edits of its body, and steps that make its messages anew.

        All of that is to be done yet.
        """
        messages = None
        is_resliced = False
        edits: Edits = {}
        if type(request) is ChatRequest:
            profile = select(request.model)
            is_resliced = profile.reslices and request.stream is True
            messages = hold_to_profile(request, body, profile, edits)
        model = request.model
        if model in self._aliases:
            model = self.canonical(model)
            edits["model"] = msgspec.json.encode(model)
        is_stream = request.stream is True
        return Call(model, is_stream, body, request, is_resliced), edits, messages


def _check_type(content_type: bytes | None) -> None:
    if not is_json_type(content_type):
        raise BadBody("Expected request with `Content-Type: application/json`")


def is_json_type(value: bytes | None) -> bool:
    """Whether a Content-Type names JSON: application/json or application/*+json."""
    if value is None:
        return False
    media_type = value.partition(b";")[0].strip().lower()
    return media_type == b"application/json" or (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    )
