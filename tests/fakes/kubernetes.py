"""An API server of Kubernetes, as far as pods are listed and watched."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]

# What leads to it; {url} is to be filled in.
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "{url}"}}}}]
users: [{{name: test, user: {{token: secret}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
"""


def pod(
    name: str = "a",
    ip: str = "10.0.0.1",
    *,
    uid: str = "",
    ready: bool = True,
    phase: str = "Running",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: bool = False,
) -> Object:
    """A pod as the server shows it; ready unless told otherwise."""
    meta: Object = {
        "name": name,
        "namespace": "team",
        "uid": uid or f"uid-{name}",
        "resourceVersion": "1",
        "labels": labels or {"app": "vllm"},
        "annotations": annotations,
    }
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": "PodScheduled", "status": "True"},
        {"type": "Ready", "status": "True" if ready else "False"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "engine", "image": "x"}]},
        "status": {"phase": phase, "podIP": ip, "conditions": conditions},
    }


class FakeKubernetes:
    """Serves on a loopback port until closed; every connection has a thread."""

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        self.version = 10
        self.refusal: tuple[int, str] | None = None  # status and message
        self.watch_refusal: tuple[int, str] | None = None
        self.page_size = 100
        self.asked: list[tuple[str, dict[str, str], str | None]] = []
        self._changed = threading.Condition()
        self._events: list[tuple[int, Object]] = []
        self._cuts = 0  # watches that began before it grew are broken off
        self._is_closed = False
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:  # noqa: N802 - the library's name
                api._serve(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(
            target=lambda: self._server.serve_forever(0.01), daemon=True
        ).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop, and end every watch."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def apply(self, one: Object) -> None:
        """Add or change a pod."""
        name = one["metadata"]["name"]
        self._tell("MODIFIED" if name in self.pods else "ADDED", name, one)

    def delete(self, name: str) -> None:
        """Remove a pod."""
        self._tell("DELETED", name, None)

    def bookmark(self) -> None:
        """Tell the watches how far they are."""
        with self._changed:
            self.version += 1
            meta = {"resourceVersion": str(self.version)}
            self._append("BOOKMARK", {"kind": "Pod", "metadata": meta})

    def fail_watches(self, code: int, message: str) -> None:
        """Tell the watches of an error, as the server does, with status 200."""
        with self._changed:
            self._append("ERROR", {"code": code, "message": message})

    def break_watches(self) -> None:
        """Cut every watch in the middle of a chunk."""
        with self._changed:
            self._cuts += 1
            self._changed.notify_all()

    def forget(self) -> None:
        """Lose all history: watches from an old version are answered 410."""
        with self._changed:
            self._events.clear()
            self.version += 100
            self.watch_refusal = (410, "too old resource version")
            self._cuts += 1
            self._changed.notify_all()

    @property
    def watches(self) -> list[str]:
        """The versions that watches began behind."""
        return [
            query["resourceVersion"] for _, query, _ in self.asked if _is_watch(query)
        ]

    @property
    def lists(self) -> int:
        """How many pages were asked for."""
        return len(self.asked) - len(self.watches)

    def _tell(self, kind: str, name: str, one: Object | None) -> None:
        with self._changed:
            self.version += 1
            if one is None:
                one = self.pods.pop(name)
            else:
                self.pods[name] = one
            one["metadata"]["resourceVersion"] = str(self.version)
            self._append(kind, one)

    def _append(self, kind: str, one: Object) -> None:
        self._events.append((self.version, {"type": kind, "object": one}))
        self._changed.notify_all()

    def _serve(self, request: http.server.BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        query = {name: one[0] for name, one in parse_qs(parts.query).items()}
        is_watch = _is_watch(query)
        with self._changed:
            self.asked.append((parts.path, query, request.headers["authorization"]))
            refusal = self.refusal
            if is_watch and refusal is None:
                refusal, self.watch_refusal = self.watch_refusal, None
        if refusal is not None:
            _answer(request, refusal[0], {"kind": "Status", "message": refusal[1]})
        elif is_watch:
            self._serve_watch(request, int(query["resourceVersion"]))
        else:
            self._serve_list(request, int(query.get("continue", "0")))

    def _serve_list(
        self, request: http.server.BaseHTTPRequestHandler, begin: int
    ) -> None:
        with self._changed:
            meta = {"resourceVersion": str(self.version)}
            end = begin + self.page_size
            items = list(self.pods.values())
            if end < len(items):
                meta["continue"] = str(end)
            _answer(request, 200, {"metadata": meta, "items": items[begin:end]})

    def _serve_watch(
        self, request: http.server.BaseHTTPRequestHandler, version: int
    ) -> None:
        request.send_response(200)
        request.send_header("content-type", "application/json")
        request.send_header("transfer-encoding", "chunked")
        request.end_headers()
        request.close_connection = True
        with self._changed:
            cuts = self._cuts
            begin, place = len(self._events), 0
            while not self._is_closed and cuts == self._cuts:
                for index, (reached, event) in enumerate(self._events[place:], place):
                    is_error = event["type"] == "ERROR"
                    if reached > version if not is_error else index >= begin:
                        data = json.dumps(event).encode() + b"\n"
                        # Two chunks: a line need not come in one piece.
                        for part in (data[:20], data[20:]):
                            request.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                place = len(self._events)
                request.wfile.flush()
                self._changed.wait()
            request.wfile.write(b"ff\r\n{" if cuts != self._cuts else b"0\r\n\r\n")


def _is_watch(query: dict[str, str]) -> bool:
    """As Go reads a boolean: older clients write it as Python does."""
    return query.get("watch") in ("true", "True")


def _answer(
    request: http.server.BaseHTTPRequestHandler, status: int, value: Object
) -> None:
    data = json.dumps(value).encode()
    request.send_response(status)
    request.send_header("content-type", "application/json")
    request.send_header("content-length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)
