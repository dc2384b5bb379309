"""What a user may tune about the choice of a worker."""

from __future__ import annotations

import dataclasses
import math
import re

from smgproxy.core.options import flag
from smgproxy.routing.pins import ASSIGNMENT_MODES
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy
from smgproxy.routing.policies.power_of_two import METRICS

_GROUP = "Routing Policy"
# RFC 9110 section 5.6.2: the characters of a token, which a field name is.
_is_header_name = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


def parse_positive(text: str) -> float:
    """A finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError("must be a number above 0, such as 1.5")
    return number


def parse_boundaries(text: str) -> tuple[int, ...]:
    """Token positions, comma-separated and ascending; no text is none of them."""
    if not text:
        return ()
    try:
        places = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError("must be comma-separated numbers, such as 256,1024") from None
    if places[0] <= 0 or any(one >= next_ for one, next_ in zip(places, places[1:])):
        raise ValueError("must be above 0 and strictly ascending, such as 256,1024")
    return places


def parse_header_name(text: str) -> str:
    """A header's name, in lower case as heads have it."""
    if not _is_header_name(text):
        raise ValueError("must be a header name, such as x-session-id")
    return text.lower()


@dataclasses.dataclass(frozen=True)
class PolicyOptions:
    """How the policies choose, and which keys are sticky."""

    cache_threshold: float = flag(
        0.3,
        "--cache-threshold",
        _GROUP,
        "share of a prompt that must be known at a worker for it to be preferred; more "
        "than this (cache_aware)",
        aliases=("--cache-match-threshold",),
        minimum=0,
        maximum=1,
    )
    balance_abs_threshold: int = flag(
        64,
        "--balance-abs-threshold",
        _GROUP,
        "most requests above the workers' mean that a preferred worker may have, at "
        "times fewer (cache_aware)",
        aliases=("--spill-abs-threshold",),
        minimum=0,
    )
    balance_rel_threshold: float = flag(
        1.5,
        "--balance-rel-threshold",
        _GROUP,
        "multiple of the workers' mean load up to which a worker may be preferred "
        "(cache_aware)",
        aliases=("--spill-rel-threshold",),
        minimum=1,
    )
    balance_token_usage_threshold: float = flag(
        1.0,
        "--balance-token-usage-threshold",
        _GROUP,
        "difference in KV cache usage between two workers above which no worker is "
        "preferred; 1 = off (cache_aware)",
        parse=parse_positive,
    )
    overload_token_usage_threshold: float = flag(
        1.0,
        "--overload-token-usage-threshold",
        _GROUP,
        "KV cache usage of any worker above which no worker is preferred; 1 = off "
        "(cache_aware)",
        parse=parse_positive,
    )
    overlap_decay: float = flag(
        0.0,
        "--overlap-decay",
        _GROUP,
        "how much waiting prefill work makes a preferred worker less so; 0 = not at "
        "all (cache_aware)",
        minimum=0,
    )
    selection_temperature: float = flag(
        0.0,
        "--selection-temperature",
        _GROUP,
        "chance in the choice between preferred workers; 0 = none (cache_aware)",
        minimum=0,
    )
    eviction_interval_secs: int = flag(
        60,
        "--eviction-interval-secs",
        _GROUP,
        "seconds between two clearings of what was remembered of prompts and keys; 0 = "
        "never, not allowed with cache_aware",
        minimum=0,
    )
    max_tree_size: int = flag(
        67108864,
        "--max-tree-size",
        _GROUP,
        "characters, or tokens, of prompts remembered for each model (cache_aware)",
        minimum=1,
    )
    block_size: int = flag(
        16,
        "--block-size",
        _GROUP,
        "tokens that match together or not at all (cache_aware)",
        minimum=1,
    )
    cache_index: str = flag(
        "tree",
        "--cache-index",
        _GROUP,
        "what remembers prompts: all of them in a tree, or hashes of their heads at "
        "--cache-boundaries (cache_aware)",
        choices=("tree", "hash"),
    )
    cache_boundaries: tuple[int, ...] = flag(
        (),
        "--cache-boundaries",
        _GROUP,
        "token positions at which engines keep reusable state (cache_aware with "
        "--cache-index hash, prefix_hash) (default: none)",
        metavar="N,N",
        parse=parse_boundaries,
    )
    cache_ttl_secs: int = flag(
        180,
        "--cache-ttl-secs",
        _GROUP,
        "how long a hashed head stays with its worker (cache_aware with --cache-index "
        "hash)",
        minimum=1,
    )
    prefix_token_count: int = flag(
        256,
        "--prefix-token-count",
        _GROUP,
        "first tokens of a prompt that are hashed; four times as many characters when "
        "it is not tokenised (prefix_hash)",
        minimum=1,
    )
    prefix_hash_load_factor: float = flag(
        1.25,
        "--prefix-hash-load-factor",
        _GROUP,
        "multiple of the workers' mean load above which the owner is passed over "
        "(prefix_hash)",
        minimum=1,
    )
    prefix_hash_balance_abs_threshold: int = flag(
        10,
        "--prefix-hash-balance-abs-threshold",
        _GROUP,
        "requests above the mean that the owner must have, too (prefix_hash)",
        minimum=0,
    )
    least_load_kv_pressure_weight: float = flag(
        0.15,
        "--least-load-kv-pressure-weight",
        _GROUP,
        "seconds that one unit of KV cache pressure counts for (least_load)",
        minimum=0,
    )
    least_load_default_throughput: float = flag(
        2000.0,
        "--least-load-default-throughput",
        _GROUP,
        "tokens a second of a worker that reports none (least_load)",
        parse=parse_positive,
    )
    least_load_mean_prefill_tokens: int = flag(
        1024,
        "--least-load-mean-prefill-tokens",
        _GROUP,
        "tokens of a prompt whose length is unknown (least_load)",
        minimum=1,
    )
    least_load_max_waiting_requests: int = flag(
        0,
        "--least-load-max-waiting-requests",
        _GROUP,
        "requests waiting at a worker with which it gets no more; 0 = no limit "
        "(least_load)",
        minimum=0,
    )
    power_of_two_load_metric: str = flag(
        "expected_wait",
        "--power-of-two-load-metric",
        _GROUP,
        "what is compared: the expected wait, the requests in flight of two workers, "
        "or those of all workers (power_of_two)",
        choices=METRICS,
    )
    max_idle_secs: int = flag(
        14400,
        "--max-idle-secs",
        _GROUP,
        "seconds after which an unused routing key is forgotten; 0 = never",
        aliases=("--sticky-key-idle-secs",),
        minimum=0,
    )
    assignment_mode: str | None = flag(
        None,
        "--assignment-mode",
        _GROUP,
        "how a new routing key gets its worker (default: random for manual, delegate, "
        "which is the policy's own choice, for sticky sessions)",
        choices=ASSIGNMENT_MODES,
    )
    routing_key_override: bool = flag(
        False,
        "--routing-key-override",
        _GROUP,
        "keep the requests of one routing key on one worker, whatever the policy",
        aliases=("--sticky-sessions",),
    )
    routing_key_headers: tuple[str, ...] = flag(
        ("x-smg-routing-key",),
        "--routing-key-headers",
        _GROUP,
        "headers that are read for the routing key, in this order",
        metavar="NAME",
        is_list=True,
        parse=parse_header_name,
    )

    def __post_init__(self) -> None:
        if self.cache_index == "hash" and not self.cache_boundaries:
            raise ValueError(
                "--cache-index: hash needs --cache-boundaries, such as 256,1024"
            )

    def check(self, policy: str) -> None:
        """Refuse what does not go with the gateway's policy. Raises ValueError."""
        if policy == CacheAwarePolicy.name and not self.eviction_interval_secs:
            raise ValueError(
                "--eviction-interval-secs: must be at least 1 with --policy cache_aware"
            )

    @property
    def key_headers(self) -> tuple[bytes, ...]:
        """The headers of the routing key, as heads have their names."""
        return tuple(name.encode() for name in self.routing_key_headers)

    @property
    def idle_secs(self) -> int:
        """Age at which an unused key is dropped; 0 when nothing is cleared away."""
        return self.max_idle_secs if self.eviction_interval_secs else 0
