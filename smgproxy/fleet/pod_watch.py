"""A thread that follows the pods of a cluster, and says on the loop what changed.

Lists first, then watches from the list's version on. A watch that ends is begun again
where it stopped; only a version that the server no longer has makes for a new list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from smgproxy.fleet.discovery import MAX_WANTED, Wanted
from smgproxy.fleet.kubernetes_api import (
    ApiFailed,
    ConnectionLost,
    NoCluster,
    PodApi,
)
from smgproxy.fleet.pods import Metadata, Pod, PodRules, workers_of

_Kind = TypeVar("_Kind")

MAX_EVENT_BYTES = 4 * 1024 * 1024
FIRST_PAUSE_SECS = 1.0
LONGEST_PAUSE_SECS = 30.0
GONE = 410


class Listener:
    """What is told, on the event loop, by a PodWatch."""

    def on_pods(self, pods: dict[str, list[Wanted]]) -> None:
        """These are all pods, and the workers of each."""

    def on_pod(self, pod: str, workers: list[Wanted]) -> None:
        """A pod has these workers now; none when it is gone or not ready."""

    def on_fault(self, pod: str, why: str) -> None:
        """Something about a pod is not as it should be."""

    def on_trouble(self, status: int, why: str) -> None:
        """The API server cannot be asked; 0 when it said nothing. Tried again."""

    def on_well(self) -> None:
        """It can be asked again."""

    def on_no_cluster(self, why: str) -> None:
        """There is no cluster to ask; nothing more comes."""


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[Pod] | None = None


class _ListMetadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    more: str | None = msgspec.field(name="continue", default=None)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    metadata: Metadata


class _Status(msgspec.Struct):
    code: int = 0
    message: str | None = None


class PodWatch:
    """Follows pods until stopped; whatever goes wrong is tried again.

    ``connect`` makes the API, in the thread. ``hand_over`` runs a call on the loop; a
    RuntimeError from it means that there is no loop any more.
    """

    def __init__(
        self,
        connect: Callable[[], PodApi],
        rules: PodRules,
        listener: Listener,
        hand_over: Callable[..., object],
        first_pause_secs: float = FIRST_PAUSE_SECS,
    ) -> None:
        self._connect = connect
        self._rules = rules
        self._listener = listener
        self._hand_over = hand_over
        self._first_pause = first_pause_secs
        self._api: PodApi | None = None
        self._names: set[str] = set()
        self._faults: dict[str, str] = {}
        self._is_troubled = False
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="smgproxy-kubernetes", daemon=True
        )

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Say nothing more; returns at once."""
        self._is_stopped.set()
        if self._api is not None:
            self._api.interrupt()

    def join(self, secs: float) -> bool:
        """Wait for the thread's end; whether it came."""
        self._thread.join(secs)
        return not self._thread.is_alive()

    def _run(self) -> None:
        version = ""
        pause = self._first_pause
        while not self._is_stopped.is_set():
            try:
                if self._api is None:
                    self._api = self._connect()
                if not version:
                    version = self._list(self._api)
                for version in self._watch(self._api, version):
                    pause = self._first_pause
                pause = self._first_pause
            except ConnectionLost:
                # Load balancers cut what is silent; whether there is more to it shows
                # when the watch is begun again.
                pause = min(pause * 2, LONGEST_PAUSE_SECS)
            except NoCluster as error:
                self._tell(self._listener.on_no_cluster, str(error))
                return
            except ApiFailed as error:
                pause = min(pause * 2, LONGEST_PAUSE_SECS)
                if error.status == GONE:
                    version = ""
                else:
                    self._is_troubled = True
                    self._tell(self._listener.on_trouble, error.status, str(error))
            # Also behind a watch that ended well: there may be a proxy that ends each.
            self._is_stopped.wait(pause)

    def _list(self, api: PodApi) -> str:
        """Tell of all pods; the version to watch from."""
        pods: dict[str, list[Wanted]] = {}
        more: str | None = None
        while True:
            page = _decoded(api.page(more), _List)
            for pod in page.items or ():
                pods[pod.key] = self._workers(pod)
            if len(pods) > MAX_WANTED:
                raise ApiFailed(
                    0, f"more than {MAX_WANTED} pods have the labels of --selector"
                )
            more = page.metadata.more
            if not more or self._is_stopped.is_set():
                break
        self._names = set(pods)
        self._tell(self._listener.on_pods, pods)
        return page.metadata.version

    def _watch(self, api: PodApi, version: str) -> Iterator[str]:
        """Tell of changes; the version reached, after each."""
        if self._is_stopped.is_set():
            return
        pieces = api.watch(version)
        if self._is_troubled:
            self._is_troubled = False
            self._tell(self._listener.on_well)
        for line in lines(pieces, MAX_EVENT_BYTES):
            if self._is_stopped.is_set():
                return
            event = _decoded(line, _Event)
            if event.type == "ERROR":
                status = _decoded(event.object, _Status)
                text = " ".join((status.message or "the watch failed").split())
                raise ApiFailed(status.code, f"{status.code} {text}")
            if event.type == "BOOKMARK":
                yield _decoded(event.object, _Bookmark).metadata.resource_version
                continue
            pod = _decoded(event.object, Pod)
            self._change(pod, is_gone=event.type == "DELETED")
            yield pod.metadata.resource_version

    def _change(self, pod: Pod, is_gone: bool) -> None:
        if is_gone:
            self._names.discard(pod.key)
            self._faults.pop(pod.key, None)
        elif pod.key not in self._names and len(self._names) >= MAX_WANTED:
            return  # a selector gone wrong
        else:
            self._names.add(pod.key)
        workers = [] if is_gone else self._workers(pod)
        self._tell(self._listener.on_pod, pod.key, workers)

    def _workers(self, pod: Pod) -> list[Wanted]:
        workers, fault = workers_of(pod, self._rules)
        if not fault:
            self._faults.pop(pod.key, None)
        elif self._faults.get(pod.key) != fault:
            # Once for each pod, not with every heartbeat.
            self._faults[pod.key] = fault
            self._tell(self._listener.on_fault, pod.key, fault)
        return workers

    def _tell(self, what: Callable[..., None], *about: Any) -> None:
        if self._is_stopped.is_set():
            return
        try:
            self._hand_over(what, *about)
        except RuntimeError:
            self._is_stopped.set()


def lines(pieces: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The lines of a byte stream, without what is left behind the last one.

    Raises ApiFailed for a line of more than ``limit`` bytes.
    """
    waiting = b""
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        if whole:
            yield waiting + whole[0]
            yield from whole[1:]
            waiting = b""
        waiting += rest
        if len(waiting) > limit:
            raise ApiFailed(0, f"an event is longer than {limit} bytes")


def _decoded(data: bytes | msgspec.Raw, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiFailed(0, f"the API server's answer is not understood: {error}") from (
            None
        )
