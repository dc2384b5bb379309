"""The selection policies by their names, and how each is made of the options."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.routing.expected_wait import ExpectedWait
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.pins import Pins
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy, CacheAwareSettings
from smgproxy.routing.policies.consistent_hashing import ConsistentHashingPolicy
from smgproxy.routing.policies.least_load import LeastLoadPolicy
from smgproxy.routing.policies.manual import ManualPolicy
from smgproxy.routing.policies.passthrough import PassthroughPolicy
from smgproxy.routing.policies.power_of_two import PowerOfTwoPolicy
from smgproxy.routing.policies.prefix_hash import PrefixHashPolicy
from smgproxy.routing.policies.random import RandomPolicy
from smgproxy.routing.policies.round_robin import RoundRobinPolicy
from smgproxy.routing.policy import Policy
from smgproxy.routing.sticky import DELEGATE, StickyPolicy

# These pin or hash routing keys themselves.
_KEYED = frozenset((ManualPolicy.name, ConsistentHashingPolicy.name))


def _cache_aware(options: PolicyOptions) -> Policy:
    settings = CacheAwareSettings(
        threshold=options.cache_threshold,
        abs_threshold=options.balance_abs_threshold,
        rel_threshold=options.balance_rel_threshold,
        usage_spread=options.balance_token_usage_threshold,
        usage_limit=options.overload_token_usage_threshold,
        overlap_decay=options.overlap_decay,
        temperature=options.selection_temperature,
        max_tree_size=options.max_tree_size,
        block_size=options.block_size,
        index=options.cache_index,
        boundaries=options.cache_boundaries,
        ttl_secs=options.cache_ttl_secs,
    )
    return CacheAwarePolicy(settings)


def _least_load(options: PolicyOptions) -> Policy:
    wait = ExpectedWait(
        options.least_load_mean_prefill_tokens,
        options.least_load_default_throughput,
        options.least_load_kv_pressure_weight,
    )
    return LeastLoadPolicy(wait, options.least_load_max_waiting_requests)


def _prefix_hash(options: PolicyOptions) -> Policy:
    return PrefixHashPolicy(
        options.prefix_token_count,
        options.prefix_hash_load_factor,
        options.prefix_hash_balance_abs_threshold,
        options.cache_boundaries,
    )


def _consistent_hashing(options: PolicyOptions) -> Policy:
    reads_rid = options.routing_key_override
    return ConsistentHashingPolicy(options.key_headers, reads_rid)


def _manual(options: PolicyOptions) -> Policy:
    mode = options.assignment_mode or "random"
    return ManualPolicy(mode, options.idle_secs, options.routing_key_override)


POLICIES: dict[str, Callable[[PolicyOptions], Policy]] = {
    "random": lambda options: RandomPolicy(),
    "round_robin": lambda options: RoundRobinPolicy(),
    "passthrough": lambda options: PassthroughPolicy(),
    "cache_aware": _cache_aware,
    "power_of_two": lambda o: PowerOfTwoPolicy(o.power_of_two_load_metric),
    "least_load": _least_load,
    "manual": _manual,
    "consistent_hashing": _consistent_hashing,
    "prefix_hash": _prefix_hash,
}

# What a worker's label gets that asks for another policy than the gateway's.
_LABELLED: dict[str, Callable[[PolicyOptions], Policy]] = {
    **POLICIES,
    "cache_aware": lambda options: CacheAwarePolicy(),
    "power_of_two": lambda options: PowerOfTwoPolicy(),
    "least_load": lambda options: LeastLoadPolicy(),
    "manual": lambda o: ManualPolicy(reads_rid=o.routing_key_override),
    "prefix_hash": lambda options: PrefixHashPolicy(),
}


class PolicyMaker:
    """Makes the policies of one gateway; with the override, all share one pin map."""

    __slots__ = ("_name", "_options", "pins")

    def __init__(self, name: str, options: PolicyOptions) -> None:
        self._name = name
        self._options = options
        self.pins = Pins(options.idle_secs)

    def default(self) -> Policy:
        """The gateway's own policy, as its flags have it."""
        return self._wrapped(POLICIES[self._name](self._options))

    def labelled(self, name: str) -> Policy | None:
        """The policy that a worker's label asks for; None when there is none such.

        Under the gateway's own name it is made of the flags, under another of the
        built-in defaults.
        """
        if name not in POLICIES:
            return None
        makers = POLICIES if name == self._name else _LABELLED
        return self._wrapped(makers[name](self._options))

    def _wrapped(self, policy: Policy) -> Policy:
        options = self._options
        if not options.routing_key_override or policy.name in _KEYED:
            return policy
        mode = options.assignment_mode or DELEGATE
        return StickyPolicy(policy, self.pins, options.key_headers, mode)
