"""Whatever a provider says, and whatever others do: in the end the fleet is so."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from smgproxy.fleet.discovery import Wanted
from smgproxy.fleet.fleet import AlreadyRegistered
from smgproxy.fleet.spec import WorkerSpec
from tests.fakes.engine import sglang
from tests.fleet.discovered import Stage, want

URLS = [f"http://w{number}:1" for number in range(4)]
OTHER = "http://other:1"


class DiscoveryMachine(RuleBasedStateMachine):
    """Passes at any time over engines that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.it = Stage(self.patch)
        for url in (*URLS, OTHER):
            self.it.engines.tables[url] = sglang()
        self.it.fleet.add(WorkerSpec(OTHER))
        self.wanted: list[Wanted] = []

    @rule(
        found=st.dictionaries(
            st.sampled_from(URLS), st.tuples(st.sampled_from("12"), st.booleans())
        )
    )
    def the_provider_says(self, found: dict[str, tuple[str, bool]]) -> None:
        self.wanted = [
            want(url, digest, f"other name of {url}" if is_renamed else "")
            for url, (digest, is_renamed) in found.items()
        ]
        self.it.run(*self.wanted)

    @rule(secs=st.sampled_from([0.5, 3, 10]))
    def time_passes(self, secs: float) -> None:
        self.it.clock.advance(secs)

    @rule(url=st.sampled_from(URLS))
    def an_engine_goes_down(self, url: str) -> None:
        self.it.engines.tables.pop(url, None)

    @rule(url=st.sampled_from(URLS))
    def an_engine_comes_up(self, url: str) -> None:
        self.it.engines.tables[url] = sglang()

    @rule(url=st.sampled_from(URLS))
    def somebody_removes_a_worker(self, url: str) -> None:
        worker = self.it.registry.by_url(url)
        if worker is not None:
            self.it.fleet.remove(worker.id)

    @invariant()
    def the_workers_of_others_stay(self) -> None:
        worker = self.it.registry.by_url(OTHER)
        assert worker is not None and not worker.is_removed
        with pytest.raises(AlreadyRegistered):
            self.it.fleet.add(WorkerSpec(OTHER))

    def teardown(self) -> None:
        try:
            for url in URLS:
                self.it.engines.tables[url] = sglang()
            for _ in range(8):  # passes, and the time that each leaves to the next
                self.it.run(*self.wanted)
                self.it.clock.advance(40)
            assert self.it.run(*self.wanted)
            urls = {one.spec.url for one in self.wanted}
            assert set(self.it.urls) == urls | {OTHER}
            for one in self.wanted:
                worker = self.it.registry.by_url(one.spec.url)
                assert worker is not None and not worker.is_removed
            assert len(self.it.reconciler._made) == len(self.wanted)
        finally:
            self.it.fleet.close()
            self.patch.undo()


TestDiscovery = DiscoveryMachine.TestCase
