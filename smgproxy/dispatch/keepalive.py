"""Keep-alive comments for event streams whose worker says nothing for a while."""

from __future__ import annotations

from smgproxy.core.flow import Sink, Source
from smgproxy.wire.sse import ANTHROPIC_PING, PING, ends_event


class LiveStream:
    """An event stream that is being relayed, as the sweep sees it."""

    __slots__ = ("source", "sink", "ping", "seen", "since")

    def __init__(
        self, source: Source, sink: Sink, is_anthropic: bool, now: float
    ) -> None:
        self.source = source
        self.sink = sink
        self.ping = ANTHROPIC_PING if is_anthropic else PING
        self.seen = 0
        self.since = now


class KeepAlives:
    """Sweeps the live streams; costs a stream nothing while events flow.

    A frame goes out after ``silence_secs`` without bytes and again each time that
    long, but never inside an unfinished event, and never to a client that has yet to
    read what it was sent.
    """

    __slots__ = ("_silence", "_streams")

    def __init__(self, silence_secs: float) -> None:
        self._silence = silence_secs
        self._streams: set[LiveStream] = set()

    def __len__(self) -> int:
        return len(self._streams)

    def watch(self, stream: LiveStream) -> None:
        """Keep a stream alive from now on."""
        if self._silence:
            self._streams.add(stream)

    def forget(self, stream: LiveStream) -> None:
        """The stream ended."""
        self._streams.discard(stream)

    def sweep(self, now: float) -> None:
        """Send what is due; called a few times a second."""
        for stream in list(self._streams):
            source = stream.source
            if source.delivered != stream.seen:
                stream.seen = source.delivered
                stream.since = now
            elif now - stream.since >= self._silence:
                stream.since = now
                if not source.is_held and not source.is_ended:
                    if ends_event(source.tail):
                        stream.sink.write(stream.ping)
