"""The policies by their names, and how each is made of the options."""

from __future__ import annotations

import pytest

from smgproxy.routing.catalog import POLICIES, PolicyMaker
from smgproxy.routing.options import (
    PolicyOptions,
    parse_boundaries,
    parse_header_name,
    parse_positive,
)
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy, CacheAwareSettings
from smgproxy.routing.sticky import StickyPolicy


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_bears_its_name(name: str) -> None:
    assert PolicyMaker(name, PolicyOptions()).default().name == name


def test_only_cache_aware_reads_text() -> None:
    made = [PolicyMaker(name, PolicyOptions()).default() for name in POLICIES]
    assert [one.name for one in made if one.reads_text] == ["cache_aware"]


@pytest.mark.parametrize("name", POLICIES)
def test_the_override_wraps_all_but_the_policies_that_have_keys(name: str) -> None:
    options = PolicyOptions(routing_key_override=True)
    policy = PolicyMaker(name, options).default()
    is_wrapped = isinstance(policy, StickyPolicy)
    assert is_wrapped == (name not in ("manual", "consistent_hashing"))
    assert policy.name == name


def test_all_sticky_policies_of_a_gateway_share_their_pins() -> None:
    maker = PolicyMaker("random", PolicyOptions(routing_key_override=True))
    default, labelled = maker.default(), maker.labelled("round_robin")
    assert isinstance(default, StickyPolicy) and isinstance(labelled, StickyPolicy)
    assert default.pins is labelled.pins


def test_a_label_with_the_gateways_policy_has_its_flags() -> None:
    maker = PolicyMaker("cache_aware", PolicyOptions(cache_threshold=0.9))
    policy = maker.labelled("cache_aware")
    assert isinstance(policy, CacheAwarePolicy)
    assert policy._settings.threshold == 0.9


def test_a_label_with_another_policy_has_the_built_in_defaults() -> None:
    maker = PolicyMaker("random", PolicyOptions(cache_threshold=0.9))
    policy = maker.labelled("cache_aware")
    assert isinstance(policy, CacheAwarePolicy)
    settings = policy._settings
    assert settings == CacheAwareSettings()
    assert (settings.threshold, settings.max_tree_size) == (0.5, 10_000)
    assert (settings.abs_threshold, settings.rel_threshold) == (32, 1.1)


@pytest.mark.parametrize("label", ["", "no_such_policy", "bucket"])
def test_an_unknown_label_is_no_policy(label: str) -> None:
    assert PolicyMaker("random", PolicyOptions()).labelled(label) is None


def test_the_flags_defaults_are_the_contracts() -> None:
    options = PolicyOptions()
    assert (options.cache_threshold, options.max_tree_size) == (0.3, 67108864)
    assert (options.balance_abs_threshold, options.balance_rel_threshold) == (64, 1.5)
    assert options.key_headers == (b"x-smg-routing-key",)
    assert options.idle_secs == 14400


def test_without_evictions_keys_never_grow_too_old() -> None:
    assert PolicyOptions(eviction_interval_secs=0).idle_secs == 0


def test_a_hash_index_needs_boundaries() -> None:
    with pytest.raises(ValueError, match="--cache-index: hash needs"):
        PolicyOptions(cache_index="hash")
    PolicyOptions(cache_index="hash", cache_boundaries=(256,))


def test_cache_aware_must_evict() -> None:
    options = PolicyOptions(eviction_interval_secs=0)
    options.check("random")
    with pytest.raises(ValueError, match="--eviction-interval-secs: must be at least"):
        options.check("cache_aware")


def test_boundaries_are_ascending_positions() -> None:
    assert parse_boundaries("256,1024") == (256, 1024)
    assert parse_boundaries("") == ()
    for bad in ("0", "2,1", "1,1", "1,x", "1,,2", "-1"):
        with pytest.raises(ValueError, match="such as 256,1024"):
            parse_boundaries(bad)


def test_some_numbers_are_above_0() -> None:
    assert parse_positive("2") == 2.0
    for bad in ("nan", "inf", "x", "0", "-1"):
        with pytest.raises(ValueError, match="above 0, such as 1.5"):
            parse_positive(bad)


def test_header_names_are_read_in_any_case() -> None:
    assert parse_header_name("X-Session") == "x-session"
    for bad in ("", "x session", "x:", "ключ"):
        with pytest.raises(ValueError, match="header name"):
            parse_header_name(bad)
