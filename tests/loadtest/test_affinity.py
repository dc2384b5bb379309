"""The routing simulation, which is also the judge of cache_aware."""

import json

from loadtest.affinity import run
from loadtest.conversations import CACHE_BLOCKS, PrefixCache, blocks_of, trace
from loadtest.tools.talks import body_of

TURNS = trace()


def test_cache_aware_finds_far_more_and_spreads_work_no_worse() -> None:
    aware, blind = run("cache_aware", TURNS), run("round_robin", TURNS)
    assert aware.hit_share > blind.hit_share + 0.25
    assert aware.busiest < blind.busiest + 0.1
    assert aware.first_token_secs < blind.first_token_secs


def test_a_trace_is_the_same_every_time() -> None:
    assert trace(2)[:50] == trace(2)[:50]


def test_a_block_depends_on_all_before_it() -> None:
    one, other = blocks_of("x" * 200), blocks_of("y" + "x" * 199)
    assert len(one) == 3
    assert not set(one) & set(other)
    assert blocks_of("x" * 150) == one[:2]


def test_a_cache_finds_leading_blocks_only_and_forgets_the_oldest() -> None:
    cache = PrefixCache()
    assert cache.take([b"a", b"b"]) == 0
    assert cache.take([b"a", b"x", b"b"]) == 1
    assert cache.take([b"%d" % number for number in range(CACHE_BLOCKS)]) == 0
    assert len(cache) == CACHE_BLOCKS
    assert cache.take([b"a"]) == 0


def test_a_gateway_puts_a_turns_messages_together_as_the_simulation_does() -> None:
    turn = next(turn for turn in TURNS if len(turn.messages) == 4)
    said = json.loads(body_of(turn))["messages"]
    assert " ".join(one["content"] for one in said) == turn.prompt
    roles = [one["role"] for one in said]
    assert roles == ["system", "user", "assistant", "user"]
