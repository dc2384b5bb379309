"""The engine that is not there: from a prompt to words, and nothing else.

Everything here is a pure function of its arguments. The words follow from a CRC
of the prompt, so that one request always has one answer, streamed or whole, on
every worker and in every run.
"""

import math
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Literal

MAX_OUTPUT_TOKENS = 8192
MAX_DIMENSIONS = 4096
DEFAULT_DIMENSIONS = 64
BYTES_PER_TOKEN = 4

# One list per place in the sentence "The quiet river follows each small lamp."
# Letters only: the stream writes a word into JSON without escaping it.
_PLACES = (
    "The This That Each Every One".split(),
    "quiet bright gentle narrow early hidden patient silver distant warm".split(),
    "river garden engineer window traveller lantern harbour teacher cloud".split(),
    "follows remembers carries answers finds watches repairs crosses".split(),
    "the this that each every one".split(),
    "small green open simple careful winding hollow steady curious".split(),
    "lamp bridge letter mountain orchard market signal path story".split(),
)
SENTENCE_WORDS = len(_PLACES)
_ENDS = ("",) * (SENTENCE_WORDS - 1) + (".",)
_TOKENS = tuple(
    tuple(f" {word}{end}" for word in words) for words, end in zip(_PLACES, _ENDS)
)
_MIN_SENTENCES = 3
_MAX_SENTENCES = 7

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is kept of a prompt: the seed of its answer, and its size."""

    seed: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends an answer before, or keeps it going beyond, its natural end."""

    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    is_endless: bool = False


@dataclass(frozen=True, slots=True)
class Generation:
    """One choice: its tokens, why it ended, and the stop string that ended it."""

    tokens: tuple[str, ...]
    finish_reason: FinishReason
    matched_stop: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.tokens)


@dataclass(frozen=True, slots=True)
class Answer:
    """All choices of one request, in order: prompt by prompt, choice by choice."""

    prompt_tokens: int
    generations: tuple[Generation, ...]

    @property
    def completion_tokens(self) -> int:
        return sum(len(generation.tokens) for generation in self.generations)

    @property
    def steps(self) -> int:
        """How many decoding steps it takes; each gives one token to each choice."""
        return max(len(generation.tokens) for generation in self.generations)


def digest(pieces: Iterable[str]) -> Prompt:
    """Boil a text down to its seed and size, a token being four UTF-8 bytes.

    Takes the text in pieces, because joining those of a long chat would hold a
    large upload in memory once more.
    """
    seed = size = 0
    for piece in pieces:
        data = piece.encode()
        seed = zlib.crc32(data, seed)
        size += len(data)
    return Prompt(seed, max(1, -(-size // BYTES_PER_TOKEN)))


def digest_ids(ids: Iterable[int]) -> Prompt:
    """Boil a prompt of token ids down; here each id is a token."""
    numbers = [str(number) for number in ids]
    return Prompt(digest(numbers).seed, max(1, len(numbers)))


def generate(prompt: Prompt, choice: int, limits: Limits) -> Generation:
    """Say what the engine says to a prompt; each choice has words of its own."""
    seed = zlib.crc32(b"choice %d" % choice, prompt.seed)
    spread = _MAX_SENTENCES - _MIN_SENTENCES + 1
    natural = SENTENCE_WORDS * (_MIN_SENTENCES + seed % spread)
    most = MAX_OUTPUT_TOKENS if limits.is_endless else natural
    count = most if limits.max_tokens is None else min(limits.max_tokens, most)
    is_cut = limits.is_endless or count < natural
    reason: FinishReason = "length" if is_cut else "stop"
    return _cut_at_stop(Generation(_words(seed, count), reason), limits.stops)


def answer(
    prompts: tuple[Prompt, ...],
    choices: int,
    limits: Limits,
    said: tuple[str, ...] | None = None,
) -> Answer:
    """Answer every prompt `choices` times; with `said`, always with those tokens."""
    return Answer(
        sum(prompt.tokens for prompt in prompts),
        tuple(
            generate(prompt, choice, limits) if said is None else _say(said, limits)
            for prompt in prompts
            for choice in range(choices)
        ),
    )


def _say(tokens: tuple[str, ...], limits: Limits) -> Generation:
    kept = tokens[: limits.max_tokens]
    return Generation(kept, "stop" if len(kept) == len(tokens) else "length")


def embed(prompt: Prompt, dimensions: int) -> list[float]:
    """The vector of a text: of length one, every number a 32-bit float."""
    rng = Random(prompt.seed)
    raw = [rng.gauss(0.0, 1.0) for _ in range(dimensions)]
    length = math.sqrt(sum(number * number for number in raw))
    return array("f", [number / length for number in raw]).tolist()


def score(query: str, document: str) -> float:
    """How well a document answers a query, from 0 to 1: by the words they share.

    Documents that share equally many still differ a little, by their own CRC.
    """
    asked = set(query.lower().split())
    shared = len(asked & set(document.lower().split()))
    grain = digest((document,)).seed / 2**32
    return round(0.9 * shared / max(1, len(asked)) + 0.1 * grain, 6)


def classify(prompt: Prompt, classes: int) -> list[float]:
    """A probability for each class; they add up to one."""
    rng = Random(prompt.seed)
    weights = [rng.random() + 0.01 for _ in range(classes)]
    total = sum(weights)
    return [weight / total for weight in weights]


def _words(seed: int, count: int) -> tuple[str, ...]:
    """The first `count` tokens that follow from a seed; more never changes them."""
    rng = Random(seed)
    # The very words of the table: a long answer is a tuple of pointers to them.
    words = [rng.choice(_TOKENS[number % SENTENCE_WORDS]) for number in range(count)]
    words[0] = words[0].lstrip()
    return tuple(words)


def _cut_at_stop(whole: Generation, stops: tuple[str, ...]) -> Generation:
    """End an answer just before the earliest stop string, inside a token even."""
    text = whole.text
    found = [(text.find(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return whole
    left, stop = min(found)
    kept = []
    for token in whole.tokens:
        if left <= 0:
            break
        kept.append(token[:left])
        left -= len(token)
    return Generation(tuple(kept), "stop", stop)
