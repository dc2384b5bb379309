"""Uploads bodies side by side, and asks for /health all the while.

--upload PATH,MIB,TIMES[,chunked] is one client, and may be given more than once. A body
is a chat request of many messages; chunked, it has no length. Says {"phase":"begin"}
when the bodies are made and the uploads begin, and how it went at the end.
"""

import argparse
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from loadtest.stats import percentile

PIECE_BYTES = 256 * 1024
HEALTH_EVERY_SECS = 0.002
TIMEOUT_SECS = 50
# A kilobyte of text with what costs a parser: escapes, and letters beyond ASCII.
_TEXT = 'The \\"quick\\" brown fox\\n jumps über den Zaun. ' * 20


@dataclass(frozen=True, slots=True)
class Upload:
    """What one client sends, one after the other."""

    path: str
    mib: int
    times: int
    is_chunked: bool


def parse_upload(text: str) -> Upload:
    """Read PATH,MIB,TIMES[,chunked]; ValueError when it is none."""
    path, mib, times, *rest = text.split(",")
    if rest not in ([], ["chunked"]):
        raise ValueError(text)
    return Upload(path, int(mib), int(times), bool(rest))


def make_body(size: int, has_one_text: bool = False) -> bytes:
    """A chat request of exactly so many bytes.

    With ``has_one_text`` all of it is one string, as an image in base64 is.
    """
    head, end = b'{"model":"sim","messages":[', b"]}"
    message = json.dumps({"role": "user", "content": "@"}).encode()
    whole = message.replace(b"@", _TEXT.encode())
    count = 0 if has_one_text else (size - 4096) // (len(whole) + 1)
    start = head + (whole + b",") * count
    filler = size - len(start) - len(end) - len(message) + 1
    return start + message.replace(b"@", b"a" * filler) + end


def pieces(body: bytes) -> Iterator[memoryview]:
    """The body as it is handed to the socket."""
    view = memoryview(body)
    for at in range(0, len(body), PIECE_BYTES):
        yield view[at : at + PIECE_BYTES]


class Tally:
    """What the clients got, shared by their threads."""

    __slots__ = ("answered", "errors", "waits_us")

    def __init__(self) -> None:
        self.answered = 0
        self.errors = 0
        self.waits_us: list[int] = []


def send_all(port: int, upload: Upload, body: bytes, tally: Tally) -> None:
    """One client: its uploads, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECS)
    headers = {"Content-Type": "application/json"}
    if upload.is_chunked:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(len(body))
    for _ in range(upload.times):
        try:
            connection.request(
                "POST",
                upload.path,
                pieces(body),
                headers,
                encode_chunked=upload.is_chunked,
            )
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                tally.answered += 1
            else:
                tally.errors += 1
        except (OSError, http.client.HTTPException):
            tally.errors += 1
            connection.close()
    connection.close()


def ask_health(port: int, threads: list[threading.Thread], tally: Tally) -> None:
    """Ask again and again until the uploads are over; note how long each took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECS)
    while any(thread.is_alive() for thread in threads):
        asked_ns = time.monotonic_ns()
        connection.request("GET", "/health")
        connection.getresponse().read()
        tally.waits_us.append((time.monotonic_ns() - asked_ns) // 1000)
        time.sleep(HEALTH_EVERY_SECS)
    connection.close()


def run(port: int, uploads: list[Upload], has_one_text: bool) -> dict[str, float]:
    """Send everything; the figures of it."""
    bodies = {
        upload.mib: make_body(upload.mib << 20, has_one_text) for upload in uploads
    }
    tally = Tally()
    threads = [
        threading.Thread(target=send_all, args=(port, u, bodies[u.mib], tally))
        for u in uploads
    ]
    print(json.dumps({"phase": "begin"}), flush=True)
    start = time.monotonic()
    for thread in threads:
        thread.start()
    ask_health(port, threads, tally)
    waits = sorted(tally.waits_us)
    return {
        "seconds": time.monotonic() - start,
        "answered": tally.answered,
        "errors": tally.errors,
        "health_asked": len(waits),
        "health_p99_ms": percentile(waits, 0.99) / 1000,
        "health_max_ms": max(waits, default=0) / 1000,
    }


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--upload", type=parse_upload, action="append", default=[])
    parser.add_argument("--one-text", action="store_true")
    settings = parser.parse_args()
    said = run(settings.port, settings.upload, settings.one_text)
    print(json.dumps({"phase": "end"} | said), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
