"""The worker registry API: /workers and /workers/{worker_id}."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from smgproxy.api.bodies import is_json_type
from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.replies import Reply, json_reply
from smgproxy.control.worker_view import pending_view, worker_view
from smgproxy.fleet.fields import InvalidSpec
from smgproxy.fleet.fleet import (
    AlreadyRegistered,
    BeingRegistered,
    Fleet,
    UnknownWorker,
)
from smgproxy.fleet.jobs import QueueFull
from smgproxy.fleet.spec import parse_patch, parse_spec

_SHOWN_CHARACTERS = 100
_ADDING = "Worker addition queued for background processing"
_UPDATING = "Worker update queued for background processing"
_NO_PUT = (
    "PUT is not supported with --dp-aware, where an engine is several workers. "
    "Use DELETE + POST instead."
)
_REMOVING = "Worker removal queued for background processing"


class _Refused(Exception):
    """An answer in the worker API's own error form (contract: errors)."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.reply = json_reply(status, {"error": text, "code": code})


class Workers:
    """Validates, hands the job to the fleet and answers at once."""

    __slots__ = ("_fleet", "_aliases")

    def __init__(self, fleet: Fleet, aliases: dict[str, str]) -> None:
        self._fleet = fleet
        self._aliases = aliases

    async def list(self, request: ControlRequest) -> Reply:
        """GET /workers: those registered, or those that serve ``?model=``."""
        model = request.query().get("model")
        workers = self._fleet.registry.all()
        if model is not None:
            model = self._aliases.get(model, model)
            workers = [one for one in workers if not one.models or one.serves(model)]
        types = [one.worker_type for one in workers]
        stats = {
            f"{each}_count": types.count(each)
            for each in ("prefill", "decode", "regular")
        }
        views = [worker_view(one) for one in workers]
        return json_reply(200, {"workers": views, "total": len(views), "stats": stats})

    async def add(self, request: ControlRequest) -> Reply:
        """POST /workers."""
        return _answered(lambda: self._add(request))

    async def show(self, request: ControlRequest) -> Reply:
        """GET /workers/{worker_id}."""
        return _answered(lambda: self._show(request))

    async def replace(self, request: ControlRequest) -> Reply:
        """PUT /workers/{worker_id}: a whole new spec for the same URL."""
        return _answered(lambda: self._replace(request))

    async def update(self, request: ControlRequest) -> Reply:
        """PATCH /workers/{worker_id}: some fields."""
        return _answered(lambda: self._update(request))

    async def remove(self, request: ControlRequest) -> Reply:
        """DELETE /workers/{worker_id}."""
        return _answered(lambda: self._remove(request))

    def _add(self, request: ControlRequest) -> Reply:
        job = self._fleet.add(parse_spec(_json(request)))
        location = f"/workers/{job.worker_id}"
        answer = {
            "status": "accepted",
            "worker_id": job.worker_id,
            "url": job.url,
            "location": location,
            "message": _ADDING,
        }
        return json_reply(202, answer, [(b"location", location.encode())])

    def _show(self, request: ControlRequest) -> Reply:
        worker_id = _worker_id(request)
        job = self._fleet.latest_job(worker_id)
        worker = self._fleet.registry.get(worker_id)
        if worker is not None:
            return json_reply(200, worker_view(worker, job))
        url = self._fleet.url_of(worker_id)
        return json_reply(200, pending_view(worker_id, url, job))

    def _replace(self, request: ControlRequest) -> Reply:
        worker_id = _worker_id(request)
        spec = parse_spec(_json(request))
        url = self._fleet.url_of(worker_id)
        if self._fleet.options.dp_aware:
            raise _Refused(400, "BAD_REQUEST", _NO_PUT)
        if url != spec.url:
            text = (
                f"URL mismatch: worker has URL '{url}' but request body has "
                f"'{spec.url}'. URL changes are not supported via PUT. "
                "Use DELETE + POST instead."
            )
            raise _Refused(400, "BAD_REQUEST", text)
        self._fleet.replace(worker_id, spec)
        return _accepted(worker_id, _UPDATING)

    def _update(self, request: ControlRequest) -> Reply:
        worker_id = _worker_id(request)
        self._fleet.update(worker_id, parse_patch(_json(request)))
        return _accepted(worker_id, _UPDATING)

    def _remove(self, request: ControlRequest) -> Reply:
        worker_id = _worker_id(request)
        self._fleet.remove(worker_id)
        return _accepted(worker_id, _REMOVING)


def _answered(answer: Callable[[], Reply]) -> Reply:
    """The answer, or the fleet's objection in the worker API's form."""
    try:
        return answer()
    except _Refused as refused:
        return refused.reply
    except InvalidSpec as error:
        return _Refused(400, "BAD_REQUEST", str(error)).reply
    except UnknownWorker as error:
        text = f"Worker {error.args[0]} not found"
        return _Refused(404, "WORKER_NOT_FOUND", text).reply
    except BeingRegistered as error:
        return _Refused(409, "WORKER_CREATE_IN_PROGRESS", _in_progress(error)).reply
    except AlreadyRegistered as error:
        return _Refused(409, "WORKER_ALREADY_EXISTS", _exists(error)).reply
    except QueueFull as error:
        return _Refused(500, "INTERNAL_SERVER_ERROR", str(error)).reply


def _exists(error: AlreadyRegistered) -> str:
    worker_id = error.worker_id
    return (
        f"Worker already exists at URL '{error.url}' with ID {worker_id}. "
        f"Use PUT /workers/{worker_id} to replace or PATCH /workers/{worker_id} "
        "to update."
    )


def _in_progress(error: BeingRegistered) -> str:
    return (
        f"Worker creation already in progress for URL '{error.url}' with ID "
        f"{error.worker_id}. Poll GET /workers/{error.worker_id}."
    )


def _accepted(worker_id: str, message: str) -> Reply:
    return json_reply(
        202, {"status": "accepted", "worker_id": worker_id, "message": message}
    )


def _worker_id(request: ControlRequest) -> str:
    """The path's id in the form it is kept in."""
    text = request.params["worker_id"]
    try:
        return str(uuid.UUID(text))
    except ValueError as error:
        shown = text if len(text) <= _SHOWN_CHARACTERS else "(too long to show)"
        raise _Refused(
            400,
            "BAD_REQUEST",
            f"Invalid worker_id '{shown}' (expected UUID). Error: {error}",
        ) from None


def _json(request: ControlRequest) -> Any:
    """The body, which must say that it is JSON and be it."""
    if not is_json_type(request.head.first.get(b"content-type")):
        text = "Missing Content-Type: application/json header"
        raise _Refused(400, "BAD_REQUEST", text)
    try:
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = str(error)
    except RecursionError:
        why = "nested too deeply"
    text = f"JSON syntax error: Failed to parse the request body as JSON: {why}"
    raise _Refused(400, "BAD_REQUEST", text)
