"""One HTTP/2 connection: takes thousands of streams back, then asks for a big answer.

A third of the streams is reset within an upload that the gateway reads whole, a third
within one that it passes on as it comes, and a third within the answer's events. Prints
one line of JSON at the end.
"""

import argparse
import json
import socket
import sys
import time

from loadtest.tools.h2frames import DATA, HEADERS, RST_STREAM, ClientSide, Frame, reset
from loadtest.tools.h2streams import BODY, PATH

BATCH = 99
PIECE = b'{"model":"sim","messages":[{"role":"user","content":"' + b"a" * 4000
# Below and above what a gateway may keep of a body to send it again.
SHORT_BYTES, LONG_BYTES = 64 * 1024, 4 * 1024 * 1024
TIMEOUT_SECS = 20


class Connection:
    """A blocking client of one connection."""

    __slots__ = ("_port", "_socket", "side")

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.side = ClientSide()
        self._socket.sendall(self.side.opening())

    def ask(self, path: str, body: bytes, length: int | None = None) -> int:
        """Send a request, or its beginning; the stream's id."""
        stream, request = self.side.post(self._port, path, body, length)
        self._socket.sendall(request)
        return stream

    def take_back(self, streams: list[int]) -> None:
        """Reset streams."""
        self._socket.sendall(b"".join(map(reset, streams)))

    def read(self) -> list[Frame]:
        """What came next, at least one read of it."""
        data = self._socket.recv(256 * 1024)
        if not data:
            raise ConnectionError("the connection was closed")
        found = list(self.side.feed(data))
        if self.side.replies:
            self._socket.sendall(b"".join(self.side.replies))
            self.side.replies.clear()
        return found


def run_batch(connection: Connection) -> int:
    """Start streams of all three kinds, reset them in their middle; how many."""
    third = BATCH // 3
    streams = [connection.ask(PATH, PIECE, SHORT_BYTES) for _ in range(third)]
    streams += [connection.ask(PATH, PIECE, LONG_BYTES) for _ in range(third)]
    answered = {connection.ask(PATH, BODY) for _ in range(third)}
    streams += answered
    waited = set(answered)
    while waited:
        for found in connection.read():
            if found.kind == HEADERS:
                connection.side.status(found)
            if found.kind == DATA:
                waited.discard(found.stream)
            if found.kind == RST_STREAM:
                raise ConnectionError(f"stream {found.stream} was refused")
    connection.take_back(streams)
    return len(streams)


def big_answer(connection: Connection) -> int:
    """The bytes of one complete answer with 200; 0 of any other."""
    wanted = connection.ask("/generate", b'{"text":"big"}')
    status, got = "", 0
    while True:
        for found in connection.read():
            # Every head keeps the compression's state, those of reset streams too.
            said = connection.side.status(found) if found.kind == HEADERS else ""
            if found.stream != wanted:
                continue
            status = said or status
            got += len(found.payload) if found.kind == DATA else 0
            if found.ends_stream:
                return got if status == "200" and found.kind != RST_STREAM else 0


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--resets", type=int, default=5000)
    settings = parser.parse_args()
    connection = Connection(settings.port)
    start = time.monotonic()
    resets, got, fault = 0, 0, ""
    try:
        while resets < settings.resets:
            resets += run_batch(connection)
        got = big_answer(connection)
    except OSError as error:
        fault = str(error)
        print(f"resets: after {resets}: {fault}", file=sys.stderr)
    said = {"phase": "end", "seconds": time.monotonic() - start}
    said |= {"resets": resets, "bytes": got, "errors": 1 if fault else 0}
    print(json.dumps(said), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
