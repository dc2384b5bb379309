"""Fields that endpoints share: their types, their ranges, and the rules across them.

A range stands in a type's ``Meta``, where the decoder checks it for nothing and the
OpenAPI description finds it. ``extra={"kind": ...}`` names the type that a value must
have to be *out of range* rather than of the wrong type, where that is not simply the
type without its range: the contract counts a negative ``n`` as the latter.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from smgproxy.api.strict import PREFIX
from smgproxy.core.errors import BadBody, InvalidField

U32 = Annotated[int, Meta(ge=0, le=2**32 - 1, extra={"kind": None})]
U64 = Annotated[int, Meta(ge=0, extra={"kind": None})]
_COUNT = {"kind": U32}

Temperature = Annotated[float, Meta(ge=0, le=2)]
TopP = Annotated[float, Meta(gt=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
RepetitionPenalty = Annotated[float, Meta(ge=0, le=2)]
MinP = Annotated[float, Meta(ge=0, le=1)]
TopK = Annotated[int, Meta(ge=-1)]
AtLeastOne = Annotated[int, Meta(ge=1, le=2**32 - 1, extra=_COUNT)]
ChatN = Annotated[int, Meta(ge=1, le=10, extra=_COUNT)]
CompletionsN = Annotated[int, Meta(ge=1, le=128, extra=_COUNT)]
BestOf = Annotated[int, Meta(ge=0, le=20, extra=_COUNT)]
TopLogprobs = Annotated[int, Meta(ge=0, le=20, extra=_COUNT)]
Logprobs = Annotated[int, Meta(ge=0, le=5, extra=_COUNT)]

NonEmpty = Annotated[str, Meta(min_length=1)]
StopList = Annotated[list[NonEmpty], Meta(max_length=4)]
Stop = NonEmpty | StopList

# An array that nobody looks into: half a million numbers cost a millisecond, not
# twenty. `hold_raw` holds it to its type.
RawArray = Annotated[
    Raw,
    Meta(
        extra={"kind": list[Raw] | None},
        extra_json_schema={"type": ["array", "null"]},
    ),
]
# The same for a text, or texts and token ids.
RawInput = Annotated[
    Raw,
    Meta(
        extra={"kind": str | list[Raw]},
        extra_json_schema={"type": ["string", "array"]},
    ),
]
# Token ids to biases; `hold_biases` holds it to its type.
RawBiases = Annotated[
    Raw,
    Meta(
        extra={"kind": dict[str, float] | None},
        extra_json_schema={
            "type": ["object", "null"],
            "additionalProperties": {"type": "number"},
        },
    ),
]
# More than a vocabulary's worth would stop the loop for more than ten milliseconds.
MAX_BIASES = 65_536

# What rounds to zero in the 32 bits that engines sample with is no probability.
_LEAST_F32 = 1e-45


class Object(msgspec.Struct, gc=False):
    """Any object; what is in it is the worker's to judge."""


class StreamOptions(msgspec.Struct, gc=False):
    """``stream_options``; keys that are not modelled go to the worker as they are."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Body(msgspec.Struct, kw_only=True, gc=False):
    """A request body as far as the gateway looks at it.

    Bodies and what is in them hold no references in circles, so the collector of
    garbage need not know them (``gc=False``).
    """

    model: str | None = None
    stream: bool | None = None
    # What tells engines' cache entries apart; any other type is the worker's to judge.
    cache_salt: Raw | UnsetType = UNSET
    extra_key: Raw | UnsetType = UNSET

    def check(self) -> None:
        """Hold the rules that span fields. Raises InvalidField, or BadBody."""

    def least_inner_keys(self) -> int:
        """How many keys the objects inside it have at least."""
        return 0


class Sampling(Body, kw_only=True):
    """The sampling fields and extensions of chat and completions (seed: Extension
    Fields)."""

    model: str
    max_tokens: U32 | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    stop: Stop | None = None
    seed: int | None = None
    logit_bias: RawBiases | UnsetType = UNSET
    stream_options: StreamOptions | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    min_tokens: U32 | None = None
    repetition_penalty: RepetitionPenalty | None = None
    regex: str | None = None
    ebnf: str | None = None
    stop_token_ids: list[U32] | None = None
    ignore_eos: bool | None = None
    no_stop_trim: bool | None = None
    skip_special_tokens: bool | None = None
    lora_path: str | None = None
    sampling_seed: U64 | None = None
    return_hidden_states: bool | None = None
    rid: str | None = None

    def check_sampling(self, limit_name: str, limit: int | None) -> None:
        """The rules that chat and completions have in common.

        ``limit`` is the most tokens that may be generated, under ``limit_name``.
        """
        if self.logit_bias is not UNSET:
            hold_biases(self.logit_bias)
        if self.top_p is not None and self.top_p < _LEAST_F32:
            raise InvalidField("top_p: must be greater than 0 and at most 1")
        if self.top_k == 0:
            raise InvalidField("top_k: must be -1 (off) or at least 1, not 0")
        if self.stream_options is not None and self.stream is not True:
            raise InvalidField("stream_options: only allowed when stream is true")
        if self.min_tokens is not None and limit is not None:
            if self.min_tokens > limit:
                raise InvalidField(
                    f"min_tokens: {self.min_tokens} exceeds {limit_name}, "
                    f"which is {limit}"
                )


def hold_raw(raw: Raw, name: str, kinds: str) -> None:
    """Hold a raw field to its ``kinds``, named as in error messages. Raises BadBody."""
    kind = _KINDS.get(memoryview(raw)[0], "number")
    if kind not in kinds.split(" | "):
        raise BadBody(f"{PREFIX}Expected `{kinds}`, got `{kind}` - at `$.{name}`")


_KINDS = {
    ord(first): kind
    for first, kind in (
        *(("{", "object"), ("[", "array"), ('"', "str"), ("n", "null")),
        *(("t", "bool"), ("f", "bool")),
    )
}


def hold_biases(raw: Raw) -> None:
    """Hold ``logit_bias`` to type and size, its keys to the form of token ids.

    Raises BadBody and InvalidField.
    """
    text = bytes(raw)
    if text.count(b":") > MAX_BIASES:
        raise InvalidField(f"logit_bias: must have at most {MAX_BIASES} entries")
    try:
        biases = _biases(text) or {}
    except msgspec.ValidationError as error:
        raise BadBody(PREFIX + str(error).replace("`$", "`$.logit_bias")) from None
    if not (all(map(str.isdigit, biases)) and "".join(biases).isascii()):
        key = next(key for key in biases if not (key.isascii() and key.isdigit()))
        raise InvalidField(f"logit_bias: key {key[:100]!r} is not a token id")


_biases = msgspec.json.Decoder(dict[str, float] | None).decode


def check_constraints(given: dict[str, object], is_json: bool = False) -> None:
    """At most one of the constraints is set, and none beside a JSON response format.

    Raises InvalidField.
    """
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InvalidField(
            f"{', '.join(names)}: only one constraint of the output may be set"
        )
    if names and is_json:
        raise InvalidField(f"{names[0]}: cannot be combined with a JSON output format")
