"""Cutting the text of a chat stream anew: fewer and larger deltas, nothing lost.

A model that sends a few characters an event costs its client an event each. Here the
text of each field is gathered and leaves in slices; whatever else an event says stays
in its place, as the worker wrote it. Sans-IO: bytes in, bytes out, ``now`` an argument.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

# A field is cut once it has this many characters, into slices of at most so many; no
# cut leaves fewer than a few behind, and a pause lets everything go but those.
ENOUGH_CHARACTERS = 80
MOST_CHARACTERS = 160
FEWEST_CHARACTERS = 5
PAUSE_SECS = 0.25
# Beyond these the stream passes as it is: no frame, and no set of fields, is so large.
MOST_FRAME_BYTES = 1024 * 1024
MOST_FIELDS = 64

# A blank line. A lone CR ends a line too, unless it is half of a CR LF.
_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_TEXT_FIELDS = ("reasoning_content", "reasoning", "content")
_ENVELOPE = ("id", "object", "created", "model")
_EVENT_FIELDS = frozenset(
    (*_ENVELOPE, "choices", "usage", "system_fingerprint", "service_tier")
)
_CHOICE_FIELDS = frozenset(("index", "delta", "finish_reason"))

Object = dict[str, Raw]
_decode_object = msgspec.json.Decoder(Object).decode
_decode_objects = msgspec.json.Decoder(list[Object]).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    arguments: str
    name: None = None


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """A tool call's delta that holds nothing but more of its arguments."""

    index: int
    function: _Function
    id: None = None
    type: str | None = None


_decode_arguments = msgspec.json.Decoder(list[_Arguments]).decode


class Reslicer:
    """Re-cuts one stream.

    ``pending_since`` is when the worker's last bytes came, while text is held back
    that a pause lets go; None otherwise.
    """

    __slots__ = (
        "_partial",
        "_searched",
        "_texts",
        "_envelope",
        "_index",
        "_has_role",
        "_is_verbatim",
        "pending_since",
    )

    def __init__(self) -> None:
        self._partial = bytearray()  # the beginning of a frame
        self._searched = 0  # how far it has no end
        # Text held back by field, the oldest first: a name, or a tool call's index.
        self._texts: dict[str | int, str] = {}
        self._envelope = b""
        self._index = b"0"
        self._has_role = False
        self._is_verbatim = False
        self.pending_since: float | None = None

    def feed(self, data: bytes, now: float) -> bytes:
        """Take the worker's next bytes; what goes to the client now."""
        if self._is_verbatim:
            return data
        out: list[bytes] = []
        partial = self._partial
        partial += data
        start = 0
        search = self._searched
        while not self._is_verbatim:
            end = _END.search(partial, search)
            if end is None:
                break
            self._take(bytes(partial[start : end.end()]), out)
            start = search = end.end()
        del partial[:start]
        if len(partial) > MOST_FRAME_BYTES and not self._is_verbatim:
            self._give_up(out)
        if self._is_verbatim:
            out.append(bytes(partial))
            partial.clear()
        # A blank line may begin with the last bytes, CR LF CR.
        self._searched = max(len(partial) - 3, 0)
        self.pending_since = now if self._has_pausing() else None
        return b"".join(out)

    def pause(self) -> bytes:
        """The worker has been silent for PAUSE_SECS: what goes to the client now."""
        out: list[bytes] = []
        for field, text in list(self._texts.items()):
            if len(text) >= FEWEST_CHARACTERS:
                self._cut(field, out, is_all=True)
        self.pending_since = None
        return b"".join(out)

    def finish(self) -> bytes:
        """No more bytes will come: everything that is left."""
        out: list[bytes] = []
        self._flush(out)
        out.append(bytes(self._partial))
        self._partial.clear()
        self._is_verbatim = True
        self.pending_since = None
        return b"".join(out)

    # -- one frame -------------------------------------------------------------------

    def _take(self, frame: bytes, out: list[bytes]) -> None:
        payload = _payload(frame)
        if payload is None:  # a comment, an event with a name, an odd line
            self._pass(frame, out)
            return
        if payload == b"[DONE]":
            self._give_up(out)
            out.append(frame)
            return
        try:
            event = _decode_object(payload)
            choices = _decode_objects(event["choices"])
            delta = _decode_object(choices[0]["delta"]) if choices else {}
        except (msgspec.DecodeError, KeyError, RecursionError):
            self._pass(frame, out)
            return
        if len(choices) > 1:
            self._give_up(out)
            out.append(frame)
        elif not choices or _is_set(choices[0], "logprobs"):
            self._pass(frame, out)
        else:
            self._take_delta(frame, event, choices[0], delta, out)

    def _take_delta(
        self,
        frame: bytes,
        event: Object,
        choice: Object,
        delta: Object,
        out: list[bytes],
    ) -> None:
        role = delta.get("role")
        if role is not None and self._has_role:
            del delta["role"]  # only the first is sent
        elif role is not None:
            self._has_role = True
        texts = _texts_of(delta)
        is_last = _is_set(choice, "finish_reason") or _is_set(event, "usage")
        has_more = (
            _says_more(delta)
            or _says_more(choice, _CHOICE_FIELDS)
            or _says_more(event, _EVENT_FIELDS)
        )
        if not texts and role is None:
            # Nothing of ours, or nothing at all: then its place does not matter.
            if is_last or has_more:
                self._flush(out)
            out.append(frame)
            return
        if is_last:
            self._add(texts, event, choice, out)
            self._flush(out)
            out.append(_event(event, choice, delta))
            return
        if has_more:
            self._flush(out)
            out.append(_event(event, choice, delta))
        self._add(texts, event, choice, out)

    def _add(
        self,
        texts: dict[str | int, str],
        event: Object,
        choice: Object,
        out: list[bytes],
    ) -> None:
        """Gather text, and cut what is long enough."""
        self._envelope = b"".join(
            b'"%b":%b,' % (name.encode(), bytes(event[name]))
            for name in _ENVELOPE
            if name in event
        )
        self._index = bytes(choice.get("index", b"0"))
        for field, text in texts.items():
            if field in self._texts and field != next(reversed(self._texts)):
                self._flush(out)  # else it would pass what came in between
            self._texts[field] = self._texts.get(field, "") + text
            if len(self._texts[field]) >= ENOUGH_CHARACTERS:
                # What came before another field's text also leaves before it.
                for older in list(self._texts):
                    if older == field:
                        break
                    self._cut(older, out, is_all=True)
                self._cut(field, out)
        if len(self._texts) > MOST_FIELDS:
            self._flush(out)

    # -- what goes out ---------------------------------------------------------------

    def _cut(self, field: str | int, out: list[bytes], is_all: bool = False) -> None:
        """Slices of a field's text: all of it, or as long as there is enough."""
        text = self._texts.pop(field)
        least = 1 if is_all else ENOUGH_CHARACTERS
        while len(text) >= least:
            size = MOST_CHARACTERS
            if 0 < len(text) - size < FEWEST_CHARACTERS:
                size = len(text) - FEWEST_CHARACTERS
            out.append(self._slice(field, text[:size]))
            text = text[size:]
        if text:
            self._texts[field] = text

    def _slice(self, field: str | int, text: str) -> bytes:
        value = _encode(text)
        if isinstance(field, int):
            delta = b'"tool_calls":[{"index":%d,"function":{"arguments":%b}}]' % (
                field,
                value,
            )
        else:
            delta = b'"%b":%b' % (field.encode(), value)
        return (
            b'data: {%b"choices":[{"index":%b,"delta":{%b},"finish_reason":null}]}\n\n'
            % (self._envelope, self._index, delta)
        )

    def _flush(self, out: list[bytes]) -> None:
        for field in list(self._texts):
            self._cut(field, out, is_all=True)

    def _pass(self, frame: bytes, out: list[bytes]) -> None:
        self._flush(out)
        out.append(frame)

    def _give_up(self, out: list[bytes]) -> None:
        self._flush(out)
        self._is_verbatim = True

    def _has_pausing(self) -> bool:
        return any(len(text) >= FEWEST_CHARACTERS for text in self._texts.values())


def _payload(frame: bytes) -> bytes | None:
    """What a frame of a single data line holds, None for every other frame."""
    line = frame.strip(b"\r\n")
    if not line.startswith(b"data:") or b"\n" in line or b"\r" in line:
        return None
    return line[5:].strip(b" ")


def _texts_of(delta: Object) -> dict[str | int, str]:
    """Take the texts out of a delta; what is no plain text stays in it."""
    texts: dict[str | int, str] = {}
    for name in _TEXT_FIELDS:
        raw = bytes(delta.get(name, b""))
        if raw[:1] == b'"' and raw != b'""':
            texts[name] = _decode_text(raw)
            del delta[name]
    calls = delta.get("tool_calls")
    if calls is not None:
        try:
            found = _decode_arguments(calls)
        except msgspec.DecodeError:
            return texts  # it names a tool, or says something unknown: it stays whole
        for call in found:
            texts[call.index] = texts.get(call.index, "") + call.function.arguments
        del delta["tool_calls"]
    return texts


def _says_more(fields: Object, known: frozenset[str] = frozenset()) -> bool:
    """Whether anything is set that is not known to be the same in every event."""
    return any(
        name not in known and bytes(raw) not in (b'""', b"null")
        for name, raw in fields.items()
    )


def _is_set(fields: Object, name: str) -> bool:
    return bytes(fields.get(name, b"null")) != b"null"


def _event(event: Object, choice: Object, delta: Object) -> bytes:
    """An event as the worker wrote it, with another delta."""
    choice = {**choice, "delta": Raw(_encode(delta))}
    event = {**event, "choices": Raw(_encode([choice]))}
    return b"data: %b\n\n" % _encode(event)
