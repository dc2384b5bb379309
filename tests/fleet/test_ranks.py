"""Data-parallel workers: one worker for each rank of an engine."""

from __future__ import annotations

import pytest

from smgproxy.fleet.ranks import rank_url, ranks_told, split_rank
from smgproxy.fleet.worker import Worker


def test_a_rank_is_a_worker_of_its_own_behind_the_same_address() -> None:
    worker = Worker("id", rank_url("http://host:8000", 2))
    assert worker.url == "http://host:8000@2"
    assert (worker.host, worker.port, worker.dp_rank) == ("host", 8000, 2)
    assert worker.authority == b"host:8000"
    assert worker.routed_id == b"http://host:8000@2"


@pytest.mark.parametrize("url", ["http://host:8000", "http://[::1]:80", "http://a/@x"])
def test_another_url_is_no_rank(url: str) -> None:
    assert split_rank(url) == (url, None)
    assert Worker("id", "http://host:8000").dp_rank is None


@pytest.mark.parametrize(
    "told, ranks",
    [
        ({"dp_size": "4"}, 4),
        ({"dp_size": "1"}, 1),
        ({"dp_size": "1024"}, 1024),
        *[({"dp_size": bad}, None) for bad in ("0", "-1", "1025", "true", "2.0", "")],
        *[({"dp_size": bad}, None) for bad in ("9" * 10, "\u0662")],
        ({}, None),
    ],
)
def test_an_engine_has_as_many_ranks_as_it_tells(
    told: dict[str, str], ranks: int | None
) -> None:
    assert ranks_told(told) == ranks
