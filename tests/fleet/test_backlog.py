"""How much work lies before a worker."""

from __future__ import annotations

import pytest

from smgproxy.fleet.backlog import Backlog
from smgproxy.fleet.load_report import from_loads


def _reported(entries: bytes) -> Backlog:
    report = from_loads(b'{"loads":[' + entries + b"]}")
    assert report is not None
    backlog = Backlog()
    backlog.note_report(report)
    return backlog


def test_before_the_first_report_nothing_is_known() -> None:
    assert not Backlog().is_reported


def test_ranks_are_summed_and_their_usage_averaged() -> None:
    backlog = _reported(
        b'{"num_waiting_uncached_tokens":10,"num_running_reqs":2,"token_usage":0.2,'
        b'"gen_throughput":100},{"num_waiting_uncached_tokens":30,'
        b'"num_running_reqs":1,"token_usage":0.6,"gen_throughput":50}'
    )
    assert (backlog.tokens, backlog.requests, backlog.throughput) == (40, 3, 150)
    assert backlog.usage == pytest.approx(0.4)
    assert backlog.pressure == pytest.approx(0.4 / 0.6)


def test_waiting_requests_count_when_their_tokens_are_not_told() -> None:
    assert _reported(b'{"num_waiting_reqs":3}').requests == 3
    told = b'{"num_waiting_reqs":3,"num_waiting_uncached_tokens":7}'
    backlog = _reported(told)
    assert (backlog.requests, backlog.tokens, backlog.waiting) == (0, 7, 3)


def test_running_requests_weigh_one_request_each() -> None:
    assert _reported(b'{"num_running_reqs":10}').requests == 10


def test_what_was_sent_stays_until_the_next_report() -> None:
    backlog = _reported(b"{}")
    backlog.note_sent(0)
    backlog.note_sent(200)
    assert (backlog.requests, backlog.tokens, backlog.sent) == (1, 200, 2)
    report = from_loads(b'{"loads":[{}]}')
    assert report is not None
    backlog.note_report(report)
    assert (backlog.requests, backlog.tokens, backlog.sent) == (0, 0, 0)


def test_a_full_cache_is_no_division_by_zero() -> None:
    assert _reported(b'{"token_usage":1.0}').pressure == pytest.approx(99)
    assert _reported(b'{"token_usage":-3}').pressure == 0


def test_a_report_may_name_no_rank() -> None:
    backlog = Backlog()
    backlog.note_report({"loads": []})
    assert (backlog.usage, backlog.tokens) == (0, 0)
