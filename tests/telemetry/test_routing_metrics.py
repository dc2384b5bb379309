"""What is counted of retries and of policies, from scrape to scrape."""

from __future__ import annotations

from collections.abc import Iterable

from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.policies.cache_aware import RATIOS, CacheAwarePolicy
from smgproxy.routing.policies.manual import ManualPolicy
from smgproxy.routing.policies.random import RandomPolicy
from smgproxy.routing.policy import Policy
from smgproxy.routing.router import Router, RoutingOptions
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.routing_metrics import (
    RATIO_BOUNDS,
    PolicyFamilies,
    fallback_families,
    retry_families,
)
from smgproxy.telemetry.stats import RouterStats
from smgproxy.telemetry.worker_metrics import WorkerFamilies
from tests.routing.fleet import keyed, prompt

Samples = dict[tuple[str, ...], float]


def read(families: Iterable[Family]) -> Samples:
    """Every sample by its name and label values, in the contract's order."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.metric().samples
    }


def registry(*models: str) -> Registry:
    """One ready worker for each model."""
    made = Registry()
    for number, model in enumerate(models):
        one = Worker(f"id{number}", f"http://w{number}")
        one.models = [{"id": model}]
        one.state = WorkerState.READY
        made.add(one)
    return made


# -- fallbacks of models -------------------------------------------------------------


def test_fallbacks_of_models_have_a_series_for_each_name_of_a_chain() -> None:
    assert read(fallback_families({("a", "b"): 3, ("a", "c"): 0})) == {
        ("smg_model_fallback_total", "a", "b"): 3,
        ("smg_model_fallback_total", "a", "c"): 0,
    }


def test_without_chains_there_is_no_such_family() -> None:
    assert list(fallback_families({})) == []


# -- retries -------------------------------------------------------------------------


def test_retries_are_published_at_0_for_each_worker_type_and_endpoint() -> None:
    samples = read(retry_families(RouterStats()))
    assert len(samples) == 2 * 3 * 10
    assert samples["smg_worker_retries_total", "prefill", "audio_transcriptions"] == 0


def test_routes_that_the_contract_does_not_list_are_other() -> None:
    stats = RouterStats()
    for endpoint in ("chat", "embeddings", "classify"):
        stats.count_retry(endpoint, 1, 0.04)
        stats.count_exhausted(endpoint)
    samples = read(retry_families(stats))
    assert len({key for key in samples if key[0].endswith("_total")}) == 60
    for name in ("smg_worker_retries_total", "smg_worker_retries_exhausted_total"):
        assert samples[name, "regular", "chat"] == 1
        assert samples[name, "regular", "other"] == 2


def test_pauses_are_counted_by_the_number_of_the_retry() -> None:
    stats = RouterStats()
    stats.count_retry("chat", 1, 0.04)
    stats.count_retry("chat", 2, 0.08)
    samples = read(retry_families(stats))
    name = "smg_worker_retry_backoff_seconds"
    assert samples[f"{name}_bucket", "1", "0.05"] == 1
    assert samples[f"{name}_bucket", "2", "0.05"] == 0
    assert samples[f"{name}_sum", "2"] == 0.08


# -- policies ------------------------------------------------------------------------


def test_no_policy_has_samples_before_its_first_event() -> None:
    policies = [CacheAwarePolicy(), RandomPolicy()]
    assert read(PolicyFamilies(lambda: policies).collect()) == {}


def test_the_bounds_of_ratios_are_those_of_the_policy() -> None:
    assert RATIO_BOUNDS == RATIOS


def test_cache_aware_shows_its_decisions_its_ratios_and_its_trees() -> None:
    router = Router(registry("m"), RoutingOptions("cache_aware"))
    policy = router.policies()[0]
    request = prompt("abcdefghij")
    for _ in range(2):
        router.pick(request)
        router.release(request)
    samples = read(PolicyFamilies(router.policies).collect())
    branch = "smg_cache_aware_policy_branch_total"
    assert samples[branch, "expected_wait_fallback"] == 1
    assert samples[branch, "tree_match"] == 1
    ratio = "smg_cache_aware_match_ratio"
    assert samples[f"{ratio}_bucket", "0"] == 1
    assert samples[f"{ratio}_bucket", "1"] == samples[(f"{ratio}_count",)] == 2
    assert samples[(f"{ratio}_sum",)] == 1
    assert samples["smg_cache_tree_chars", "m"] == 10
    assert samples["smg_cache_tree_tokens", "m"] == 0
    assert samples["smg_cache_tree_tenants", "m", "string"] == 1
    assert samples["smg_cache_tree_tenants", "m", "token"] == 0
    assert samples["smg_cache_placement_entries", "m"] == 0
    policy.forget_model("m")
    assert ("smg_cache_tree_chars", "m") not in read(
        PolicyFamilies(router.policies).collect()
    )


def test_sticky_sessions_count_as_manual_does_and_show_their_keys() -> None:
    workers = registry("m")
    options = PolicyOptions(routing_key_override=True)
    router = Router(workers, RoutingOptions("prefix_hash"), options)
    families = PolicyFamilies(router.policies)
    request = keyed("k")
    router.pick(request)
    samples = read(families.collect())
    assert samples["smg_manual_policy_branch_total", "vacant"] == 1
    assert samples["smg_routing_key_source_total", "header"] == 1
    assert samples[("smg_manual_policy_cache_entries",)] == 1
    # The key had to be placed, and that was the inner policy's choice.
    branch = "smg_prefix_hash_policy_branch_total"
    assert sum(n for key, n in samples.items() if key[0] == branch) == 1
    active = "smg_worker_routing_keys_active", "http://w0"
    assert read(WorkerFamilies().collect(workers.all()))[active] == 1
    router.release(request)
    assert read(WorkerFamilies().collect(workers.all()))[active] == 0


def test_a_policy_that_left_keeps_what_it_counted() -> None:
    gone, stays = ManualPolicy(), ManualPolicy()
    gone.branches["vacant"], stays.branches["vacant"] = 3, 4
    policies: list[Policy] = [stays, gone]
    families = PolicyFamilies(lambda: list(policies))
    key = "smg_manual_policy_branch_total", "vacant"
    assert read(families.collect())[key] == 7
    policies.remove(gone)
    for _ in range(2):  # once, not once a scrape
        assert read(families.collect())[key] == 7
