"""What a worker's record says and counts."""

from __future__ import annotations

import pytest

from smgproxy.fleet.worker import Worker


@pytest.mark.parametrize("named", [None, "unknown"])
def test_a_send_that_names_no_model_counts_as_the_workers_own(
    named: str | None,
) -> None:
    worker = Worker("id-1", "http://127.0.0.1:8000")
    worker.count_request(named)
    worker.models = [{"id": "m"}, {"id": "n"}]
    worker.count_request(named)
    worker.count_request("n")
    assert worker.requests == {"unknown": 1, "m": 1, "n": 1}
