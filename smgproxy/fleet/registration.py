"""Brings one worker up: asks until it answers, then finds out what it is.

The requests and their order are the contract's (what a plain HTTP worker receives at
registration); the first two steps carry no key.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from smgproxy.core.clock import monotonic
from smgproxy.fleet import identity
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.outside import Fetch, Sleep, Told, ask
from smgproxy.fleet.ranks import MAX_RANKS, ranks_told
from smgproxy.fleet.registry import UNKNOWN_MODEL
from smgproxy.fleet.spec import UNSPECIFIED, WorkerSpec
from smgproxy.fleet.worker import Worker

log = logging.getLogger(__name__)

EAGER_TRIES = 10
FALLBACK_ENGINE = "sglang"
NOT_FOUND = 404
# How often an engine is asked for the number of its ranks, and how long between.
RANK_TRIES = 3
RANK_PAUSE_SECS = 1.0


class RegistrationFailed(Exception):
    """The worker did not come up in time; the message is for the log and for people."""


def startup_pauses(longest_secs: float) -> Iterator[float]:
    """Pauses between tries: a second each at first, then longer (ruling 19)."""
    pause = min(1.0, longest_secs)
    for _ in range(EAGER_TRIES):
        yield pause
    while True:
        pause = min(pause * 2, longest_secs)
        yield pause


class Registration:
    """One worker's way into the fleet."""

    __slots__ = ("_worker", "_spec", "_options", "_fetch", "_sleep", "_deadline")

    def __init__(
        self,
        worker: Worker,
        spec: WorkerSpec,
        options: FleetOptions,
        fetch: Fetch,
        sleep: Sleep,
    ) -> None:
        self._worker = worker
        self._spec = spec
        self._options = options
        self._fetch = fetch
        self._sleep = sleep
        self._deadline = 0.0

    async def run(self) -> None:
        """Fill in the worker's engine, labels and models. Raises RegistrationFailed."""
        if self._options.worker_startup_delay:
            await self._sleep(self._options.worker_startup_delay)
        self._deadline = monotonic() + self._options.worker_startup_timeout_secs
        await self._classify()
        await self._wait_until_up()
        runtime = self._spec.runtime_type
        if runtime == UNSPECIFIED:
            runtime = await self._detect_engine()
        told = await self._discover(runtime)
        if self._options.dp_aware:
            told = await self._until_ranks_told(runtime, told)
            self._worker.dp_size = ranks_told(told)
        labels = {**told, **self._spec.labels}
        card = identity.card_from(labels)
        if self._spec.keeps_engine_name:
            own_name = identity.card_from(told)["id"]
            if own_name not in (card["id"], UNKNOWN_MODEL):
                card["aliases"] = [own_name]
        worker = self._worker
        worker.runtime_type = runtime
        worker.labels = labels
        worker.models = list(self._spec.models) or [card]

    async def _classify(self) -> None:
        """An engine has /health; a server with a model list alone is a provider."""
        if (await self._ask("/health", with_key=False)).is_ok:
            return
        models = (await self._ask("/v1/models", with_key=False)).fields()
        if identity.first_model(models):
            log.warning(
                "worker %s lists models but does not answer /health: it is registered "
                "once its health endpoint answers",
                self._worker.url,
            )

    async def _wait_until_up(self) -> None:
        """Ask the health endpoint until it answers 2xx."""
        endpoint = self._worker.health.endpoint
        self._worker.http2 = self._worker.http_pool.http2 is True
        first = True
        for pause in startup_pauses(self._options.worker_startup_check_interval):
            told = await self._knock(endpoint)
            if told.is_ok:
                return
            if not self._has_time_for(pause):
                limit = self._options.worker_startup_timeout_secs
                raise RegistrationFailed(
                    f"no 2xx from {endpoint} within {limit} s, last: {told.why}"
                )
            level = logging.WARNING if first else logging.DEBUG
            url = self._worker.url
            log.log(level, "worker %s is not up yet (%s), retrying", url, told.why)
            first = False
            await self._sleep(pause)

    async def _knock(self, endpoint: str) -> Told:
        """One try, by each version of HTTP that the worker may speak.

        The first that is answered is spoken from now on. Raises RegistrationFailed
        when it is not the one that was asked for.
        """
        worker = self._worker
        if worker.http_pool.http2:
            told = await self._knock_by_http2(endpoint)
            if not told.is_ok:
                if (await self._ask(endpoint, with_key=False)).is_ok:
                    raise RegistrationFailed(
                        "http_pool.http2 is true, but the worker speaks HTTP/1.1 only"
                    )
                worker.http2 = True
            return told
        if worker.may_speak_either:
            told = await self._knock_by_http2(endpoint)
            if told.is_ok:
                return told
        return await self._ask(endpoint, with_key=False)

    async def _knock_by_http2(self, endpoint: str) -> Told:
        self._worker.http2 = True
        told = await self._ask(endpoint, with_key=False)
        self._worker.http2 = told.is_ok
        return told

    async def _detect_engine(self) -> str:
        """Which engine it is; asked again while it tells nothing usable."""
        pause = 0
        while True:
            models = (await self._ask("/v1/models")).fields()
            engine = identity.engine_by_owner(models)
            if engine is not None:
                return engine
            version = (await self._ask("/version")).fields()
            server_info = (await self._ask("/server_info")).fields()
            engine = identity.engine_by_endpoints(models, version, server_info)
            url = self._worker.url
            if engine == "generic":
                log.warning("worker %s is of no known engine: taken as generic", url)
            if engine is not None:
                return engine
            pause += 1
            if not self._has_time_for(pause):
                log.warning(
                    "worker %s told neither engine nor model: taken as %s",
                    *(url, FALLBACK_ENGINE),
                )
                return FALLBACK_ENGINE
            await self._sleep(pause)

    async def _discover(self, runtime: str) -> dict[str, str]:
        """The labels it tells about itself."""
        if runtime == "vllm":
            models = (await self._ask("/v1/models")).fields()
            version = (await self._ask("/version")).fields()
            return identity.labels_from(models, version=version)
        server_info = await self._ask_either("/server_info", "/get_server_info")
        model_info = await self._ask_either("/model_info", "/get_model_info")
        models = (await self._ask("/v1/models")).fields()
        return identity.labels_from(
            models, server_info=server_info.fields(), model_info=model_info.fields()
        )

    async def _until_ranks_told(
        self, runtime: str, told: dict[str, str]
    ) -> dict[str, str]:
        """What it tells about itself, its ranks included. Raises RegistrationFailed.

        Only of SGLang is that asked (contract): no other engine reads from a request
        which rank it is for, and so it is one worker unless it says otherwise.
        """
        for _ in range(RANK_TRIES - 1):
            if runtime != "sglang" or ranks_told(told) is not None:
                return told
            await self._sleep(RANK_PAUSE_SECS)
            told = await self._discover(runtime)
        if ranks_told(told) is None:
            raise RegistrationFailed(
                f"no dp_size of 1 to {MAX_RANKS} in its /server_info, which --dp-aware "
                "needs"
            )
        return told

    async def _ask_either(self, path: str, older: str) -> Told:
        told = await self._ask(path)
        return await self._ask(older) if told.status == NOT_FOUND else told

    async def _ask(self, path: str, with_key: bool = True) -> Told:
        return await ask(self._fetch, self._worker, path, with_key=with_key)

    def _has_time_for(self, pause: float) -> bool:
        return monotonic() + pause < self._deadline
