"""A fleet to be brought in line, with engines that answer or do not."""

from __future__ import annotations

from typing import Any

import pytest

from smgproxy.fleet.discovery import DiscoveryStats, Reconciler, Wanted
from smgproxy.fleet.fleet import Fleet
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.spec import WorkerSpec
from smgproxy.fleet.worker import HttpPoolSettings
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngines, sglang

A, B, C = "http://a:1", "http://b:1", "http://c:1"


class Stage:
    """A fleet whose workers drain for five seconds, and a reconciler of it."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        options: FleetOptions = FleetOptions(),
    ) -> None:
        self.clock = FakeClock()
        self.clock.stand_in(
            patch,
            *("smgproxy.fleet.registration", "smgproxy.fleet.jobs"),
            *("smgproxy.fleet.discovery", "smgproxy.fleet.file_discovery"),
        )
        self.background = FakeBackground(self.clock)
        self.engines = FakeEngines()
        for url in (A, B, C):
            self.engines.tables[url] = sglang()
        self.registry = Registry()
        self.fleet = Fleet(
            self.registry,
            options,
            self.engines.fetch,
            self.background.spawn,
            lambda worker: None,
            sleep=self.background.sleep,
            http_pool=HttpPoolSettings(),
        )
        self.passes: list[float] = []
        self.stats = DiscoveryStats("file", self.passes.append)
        self.reconciler = Reconciler(self.fleet, self.stats)

    @property
    def urls(self) -> list[str]:
        """The registered workers."""
        return [worker.url for worker in self.registry.all()]

    @property
    def ready(self) -> list[str]:
        """Those that serve."""
        return [worker.url for worker in self.registry.ready()]

    def run(self, *wanted: Wanted) -> bool:
        """One pass; whether all is settled."""
        return self.reconciler.run({one.id: one for one in wanted})


def want(url: str, digest: str = "1", key: str = "", **spec: Any) -> Wanted:
    """A worker that is wanted under its URL, or another key."""
    return Wanted(key or url, WorkerSpec(url, **spec), digest)
