"""/v1/models: the models that the registered workers serve."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.replies import Reply, json_reply, text_reply
from smgproxy.core.errors import ModelNotFound
from smgproxy.fleet.registry import Registry


class Models:
    """Lists canonical ids, aliases left out (seed: List Models)."""

    __slots__ = ("_registry",)

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def list(self, request: ControlRequest) -> Reply:
        """Every model of every worker, whatever the workers' state, each once."""
        models = self._registry.models()
        if not models:
            return text_reply(503, "No models available")
        data = [_view(one) for one in models]
        return json_reply(200, {"object": "list", "data": data})

    async def show(self, request: ControlRequest) -> Reply:
        """One model; a slash in its name is sent as %2F. Raises ModelNotFound."""
        name = unquote(request.params["model"])
        if name not in self._registry.models():
            raise ModelNotFound(name)
        return json_reply(200, _view(name))


def _view(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "self_hosted"}
