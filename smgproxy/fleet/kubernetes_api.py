"""Listing and watching pods, through the official client of Kubernetes.

The package is an extra: nothing of it is imported until it is asked for. The client
finds and renews the credentials and speaks TLS; what comes back is left as bytes,
because a model object for each pod would cost a hundred times what is read of it.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Iterator
from typing import Any

CONNECT_SECS = 10
# A watch is asked to last this long; one that is silent for longer is dead.
WATCH_SECS = 120
READ_SECS = WATCH_SECS + 30
PAGE_PODS = 100
_MAX_PAGE_BYTES = 64 * 1024 * 1024
_MAX_REASON_CHARACTERS = 200


class NoCluster(Exception):
    """There is nothing that says where a cluster is and how to get in."""


class ApiFailed(Exception):
    """The API server could not be asked, or said no.

    ``status`` is its answer's, 0 for none; the message is a line for the log.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class ConnectionLost(ApiFailed):
    """A watch that was under way broke off."""


class PodApi:
    """The pods of one namespace, or of all, that have these labels.

    ``client`` is a kubernetes.client.ApiClient. Every call blocks: for a thread.
    """

    __slots__ = ("_errors", "_call", "_given", "_response", "_is_over")

    def __init__(
        self, client: Any, namespace: str | None, selector: tuple[str, ...]
    ) -> None:
        core = importlib.import_module("kubernetes.client").CoreV1Api(client)
        self._errors = _errors()
        self._given: dict[str, Any] = {"label_selector": ",".join(selector)}
        self._call = core.list_pod_for_all_namespaces
        if namespace is not None:
            self._call = core.list_namespaced_pod
            self._given["namespace"] = namespace
        self._response: Any = None
        self._is_over = False

    def page(self, after: str | None) -> bytes:
        """One page of the list; ``after`` is what the page before said goes on.

        Raises ApiFailed.
        """
        more = {} if after is None else {"_continue": after}
        with _Translated(self._errors):
            response = self._ask(limit=PAGE_PODS, **more)
            try:
                data: bytes = response.read(_MAX_PAGE_BYTES + 1)
            finally:
                response.release_conn()
        if len(data) > _MAX_PAGE_BYTES:
            raise ApiFailed(0, f"a page of pods is longer than {_MAX_PAGE_BYTES} bytes")
        return data

    def watch(self, version: str) -> Iterator[bytes]:
        """Begin a watch behind a version; its bytes, as they come.

        They end when the server ends the watch. Raises ApiFailed, and ConnectionLost
        once it is under way.
        """
        with _Translated(self._errors):
            self._response = response = self._ask(
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_SECS,
            )
        if self._is_over:  # interrupt() came while there was nothing to interrupt
            response.close()
            raise ConnectionLost(0, "interrupted")
        return self._pieces(response)

    def _pieces(self, response: Any) -> Iterator[bytes]:
        with _Translated(self._errors, ConnectionLost):
            try:
                yield from response.stream(1 << 16, decode_content=True)
            finally:
                self._response = None
                response.close()

    def interrupt(self) -> None:
        """End a running watch, from another thread; none can be begun any more."""
        self._is_over = True
        response = self._response
        if response is not None:
            try:
                response.shutdown()
            except (OSError, RuntimeError, ValueError):
                pass  # it ended by itself meanwhile

    def _ask(self, **given: Any) -> Any:
        response = self._call(
            **self._given,
            **given,
            _preload_content=False,
            _request_timeout=(CONNECT_SECS, READ_SECS),
        )
        if not 200 <= response.status < 300:
            status, reason = response.status, response.reason
            response.close()
            raise ApiFailed(status, f"{status} {reason}")
        return response


class _Translated:
    """The client's errors as ours."""

    __slots__ = ("_errors", "_ours")

    def __init__(
        self,
        errors: tuple[type[Exception], ...],
        ours: type[ApiFailed] = ApiFailed,
    ) -> None:
        self._errors = errors
        self._ours = ours

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, self._errors):
            status = getattr(error, "status", 0)
            reason = getattr(error, "reason", None) or error
            text = " ".join(str(reason).split())[:_MAX_REASON_CHARACTERS]
            shown = f"{status} {text}" if status else text
            code = status if isinstance(status, int) else 0
            raise self._ours(code, shown) from None


def load() -> None:
    """Import the client. Raises ImportError."""
    for name in ("kubernetes.client", "kubernetes.config"):
        importlib.import_module(name)


def connect() -> Any:
    """A client for the cluster this runs in, or that a kubeconfig file names.

    Raises NoCluster.
    """
    client = importlib.import_module("kubernetes.client")
    config = importlib.import_module("kubernetes.config")
    chosen = client.Configuration()
    try:
        try:
            config.load_incluster_config(client_configuration=chosen)
        except config.ConfigException:
            config.load_kube_config(client_configuration=chosen)
    except (config.ConfigException, OSError, ValueError) as error:
        raise NoCluster(" ".join(str(error).split())) from None
    # Trying again is decided here, by who knows what was missed.
    chosen.retries = False
    return client.ApiClient(chosen)


def _errors() -> tuple[type[Exception], ...]:
    client = importlib.import_module("kubernetes.client")
    urllib3 = importlib.import_module("urllib3")
    return (
        client.ApiException,
        urllib3.exceptions.HTTPError,
        ssl.SSLError,
        OSError,
    )
