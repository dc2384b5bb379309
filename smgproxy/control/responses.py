"""GET /v1/responses/{id}: the gateway stores no responses, so there is none."""

from __future__ import annotations

from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.replies import Reply
from smgproxy.core.errors import GatewayError

_LONGEST_SHOWN = 100


class ResponseNotFound(GatewayError):
    """No response is stored under this id."""

    status = 404
    code = "not_found"

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"No response is stored with id '{response_id[:_LONGEST_SHOWN]}'"
        )


async def show_response(request: ControlRequest) -> Reply:
    """A stored response. Raises ResponseNotFound."""
    raise ResponseNotFound(request.params["response_id"])
