"""Uploads bodies side by side, and asks for /health all the while.

--upload PATH,MIB,TIMES[,KIND] is one client, and may be given more than once. A body is
a chat request of many messages; of the kind "chunked" it has no length. Of the kinds
"model-first" and "file-first" it is a form with a file and a model, in this order. Says
{"phase":"begin"} when the bodies are made and the uploads begin, and how it went at the
end.
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

SIZED, CHUNKED, MODEL_FIRST, FILE_FIRST = "", "chunked", "model-first", "file-first"
FORMS = (MODEL_FIRST, FILE_FIRST)
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
    kind: str = SIZED

    @property
    def headers(self) -> dict[str, str]:
        """The body's type, and how it is framed unless by its length."""
        if self.kind in FORMS:
            return {"Content-Type": "multipart/form-data; boundary=form"}
        headers = {"Content-Type": "application/json"}
        return headers | (
            {"Transfer-Encoding": CHUNKED} if self.kind == CHUNKED else {}
        )

    def make_body(self, has_one_text: bool) -> bytes:
        """What is sent."""
        if self.kind in FORMS:
            return make_form(self.mib << 20, self.kind == MODEL_FIRST)
        return make_body(self.mib << 20, has_one_text)


def parse_upload(text: str) -> Upload:
    """Read PATH,MIB,TIMES[,KIND]; ValueError when it is none."""
    path, mib, times, *rest = text.split(",")
    kind = rest[0] if len(rest) == 1 else SIZED
    if len(rest) > 1 or kind not in (SIZED, CHUNKED, *FORMS):
        raise ValueError(text)
    return Upload(path, int(mib), int(times), kind)


def make_form(file_bytes: int, is_model_first: bool) -> bytes:
    """A form whose file has so many bytes, with a model before or behind it."""
    start = b'--form\r\nContent-Disposition: form-data; name="'
    parts = [
        start + b'model"\r\n\r\nsim\r\n',
        start + b'file"; filename="a.wav"\r\n\r\n' + bytes(file_bytes) + b"\r\n",
    ]
    if not is_model_first:
        parts.reverse()
    return b"".join((*parts, b"--form--\r\n"))


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
    headers = upload.headers
    is_chunked = upload.kind == CHUNKED
    if not is_chunked:
        headers["Content-Length"] = str(len(body))
    for _ in range(upload.times):
        try:
            connection.request(
                "POST",
                upload.path,
                pieces(body),
                headers,
                encode_chunked=is_chunked,
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
    bodies = {u: u.make_body(has_one_text) for u in set(uploads)}
    tally = Tally()
    threads = [
        threading.Thread(target=send_all, args=(port, u, bodies[u], tally))
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
