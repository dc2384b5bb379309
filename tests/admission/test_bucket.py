"""The token bucket: full at first, rising with time, never above its brim."""

from __future__ import annotations

import pytest

from smgproxy.admission.bucket import TokenBucket


def taken(bucket: TokenBucket, now: float) -> int:
    """How many tokens there were."""
    count = 0
    while bucket.take(now):
        count += 1
    return count


def test_starts_full_whatever_time_it_is() -> None:
    assert taken(TokenBucket(3, 1), 0.0) == 3
    assert taken(TokenBucket(3, 1), 1e6) == 3


def test_rises_by_its_rate_and_to_its_capacity() -> None:
    bucket = TokenBucket(5, 2)
    taken(bucket, 0.0)
    assert taken(bucket, 1.0) == 2
    assert taken(bucket, 100.0) == 5


def test_what_is_put_back_over_the_brim_is_lost() -> None:
    bucket = TokenBucket(2, 1)
    bucket.put_back()
    assert taken(bucket, 0.0) == 2


@pytest.mark.parametrize("per_second", [1, 3, 7, 1000, 999_983])
@pytest.mark.parametrize("now", [0.1, 12345.678, 9e6 + 1 / 3])
def test_there_is_a_token_at_the_moment_it_is_promised(
    per_second: int, now: float
) -> None:
    bucket = TokenBucket(1, per_second)
    assert bucket.take(now) and not bucket.take(now)
    assert bucket.take(bucket.next_at())
