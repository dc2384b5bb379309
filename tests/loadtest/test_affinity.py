"""The routing simulation, which is also the judge of cache_aware."""

from loadtest.affinity import run
from loadtest.conversations import blocks_of, trace

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
