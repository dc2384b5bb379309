"""Buffer a request's body or stream it: decided before a byte of it is read.

The contract's table (request streaming, section 1), first match wins. A streamed body
is neither parsed nor kept: nothing that the gateway does for the request may need it.
A body streams only if its head gives a length, which ``--max-payload-size`` was held
against before: what streams cannot grow past the limit.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

from smgproxy.core.message import RequestHead
from smgproxy.routing.hints import token_hint

# The endpoints, by name, whose bodies may stream. All others buffer, uncounted.
STREAMABLE = frozenset(
    ("generate", "chat", "completions", "messages", "embeddings", "classify")
)


class BodyPath(NamedTuple):
    """How a body travels, and the ``reason`` label it is counted under."""

    is_streamed: bool
    reason: str


ROUTING_KEY_OVERRIDE = BodyPath(False, "routing_key_override")
POLICY_NEEDS_TEXT = BodyPath(False, "policy_needs_text")
MODEL_AMBIGUOUS = BodyPath(False, "model_ambiguous")
WORKER_MUTATES_BODY = BodyPath(False, "worker_mutates_body")
WASM_REQUEST_HOOK = BodyPath(False, "wasm_request_hook")
NO_CONTENT_LENGTH = BodyPath(False, "no_content_length")
RETRYABLE = BodyPath(False, "retryable")
# Not the contract's: a fallback's worker must read its own name in the body.
MODEL_FALLBACK = BodyPath(False, "model_fallback")
RETRY_FORFEITED = BodyPath(True, "retry_forfeited")
PURE_FORWARD = BodyPath(True, "pure_forward")
# Not the table's: a body that was to stream, but no worker could be picked for it.
NO_AVAILABLE_WORKER = BodyPath(False, "no_available_worker")


@dataclasses.dataclass(frozen=True, slots=True)
class BodyRules:
    """What the settings say of bodies; it holds as long as the gateway runs.

    ``max_buffered_bytes``: the longest body that is kept to be retried; 0 = none.
    """

    has_key_override: bool = False
    has_request_hook: bool = False
    has_fallbacks: bool = False
    retries_enabled: bool = True
    max_buffered_bytes: int = 1048576


class RoutingState(Protocol):
    """What the fleet and its policies need of bodies at this moment."""

    @property
    def reads_text(self) -> bool:
        """Whether any policy in use reads the prompt."""

    @property
    def has_many_models(self) -> bool:
        """Whether the body alone tells which of several models is meant."""

    @property
    def edits_bodies(self) -> bool:
        """Whether a worker needs a field of its own in the body."""


def choose_path(head: RequestHead, rules: BodyRules, state: RoutingState) -> BodyPath:
    """Which way the body of a request to a streamable endpoint goes."""
    if rules.has_key_override:
        return ROUTING_KEY_OVERRIDE
    if state.reads_text and token_hint(head.first) is None:
        return POLICY_NEEDS_TEXT
    if state.has_many_models:
        return MODEL_AMBIGUOUS
    if state.edits_bodies:
        return WORKER_MUTATES_BODY
    if rules.has_request_hook:
        return WASM_REQUEST_HOOK
    if head.content_length is None or b"content-length" not in head.first:
        return NO_CONTENT_LENGTH
    # A limit of 0 keeps no body, the empty one included.
    if rules.retries_enabled and 0 < rules.max_buffered_bytes >= head.content_length:
        return RETRYABLE
    if rules.has_fallbacks:
        return MODEL_FALLBACK
    return RETRY_FORFEITED if rules.retries_enabled else PURE_FORWARD
