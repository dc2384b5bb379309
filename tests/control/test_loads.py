from datetime import datetime
from typing import Any

import pytest

from smgproxy import __version__
from tests.control.stage import A, B, Stage
from tests.fakes.engine import sglang

ENGINE = "/v1/loads?include=core,disagg,queues,memory"


def engine(*ranks: dict[str, Any]) -> dict[str, Any]:
    return sglang(**{ENGINE: {"loads": list(ranks)}})


@pytest.mark.parametrize("path", ["/loads", "/get_loads"])
def test_every_rank_of_every_worker_has_an_entry(path: str) -> None:
    it = Stage()
    it.add(A, engine({"dp_rank": 0, "num_running_reqs": 1}, {"dp_rank": 1}))
    it.add(B, engine({"num_waiting_reqs": 2}))
    shown = it.json("GET", path)
    assert list(shown) == [
        *("timestamp", "version", "dp_rank_count", "loads", "aggregate")
    ]
    assert datetime.fromisoformat(shown["timestamp"]).tzinfo is not None
    assert shown["version"] == f"smg-{__version__}"
    assert shown["dp_rank_count"] == 3
    assert [(one["worker"], one["dp_rank"]) for one in shown["loads"]] == [
        *((A, 0), (A, 1), (B, 0))
    ]
    assert list(shown["loads"][0])[:3] == ["worker", "worker_type", "dp_rank"]


def test_the_aggregate_sums_requests_and_averages_shares() -> None:
    it = Stage()
    first = {"num_running_reqs": 1, "num_waiting_reqs": 2, "token_usage": 0.1}
    second = {"num_running_reqs": 4, "token_usage": 0.2, "gen_throughput": 6.75}
    third = {"token_usage": 0.25, "utilization": 0.2}
    it.add(A, engine(first, second, third))
    assert it.json("GET", "/loads")["aggregate"] == {
        "total_running_reqs": 5,
        "total_waiting_reqs": 2,
        "total_reqs": 7,
        "avg_token_usage": 0.1833,
        "avg_throughput": 2.25,
        "avg_utilization": 0.0667,
    }


def test_no_worker_is_asked() -> None:
    it = Stage()
    it.add(A, engine({}))
    asked = len(it.engines.asked)
    it.ask("GET", "/loads")
    assert len(it.engines.asked) == asked


def test_without_reports_there_is_no_aggregate() -> None:
    it = Stage()
    it.add(A)
    shown = it.json("GET", "/loads")
    assert (shown["dp_rank_count"], shown["loads"]) == (0, [])
    assert "aggregate" not in shown


@pytest.mark.parametrize("name", ["x", "nick"])
def test_loads_are_narrowed_to_a_model_or_its_alias(name: str) -> None:
    it = Stage(aliases={"nick": "x"})
    it.add(A, engine({}), models=[{"id": "x"}])
    it.add(B, engine({}))
    shown = it.json("GET", f"/loads?model={name}")
    assert [one["worker"] for one in shown["loads"]] == [A]
    assert it.json("GET", "/loads?model=nope")["loads"] == []
