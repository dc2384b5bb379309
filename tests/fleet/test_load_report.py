import pytest
import ujson

from smgproxy.fleet.load_report import from_loads, from_metrics

VLLM = b"""# HELP vllm:num_requests_running x
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a b"} 3.0
vllm:num_requests_running{engine="1",model_name="a b"} 2.0
vllm:num_requests_waiting{engine="0"} 2
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:num_requests_running_total 99
"""


def test_a_loads_answer_is_completed_with_zeros() -> None:
    report = from_loads(b'{"loads":[{"dp_rank":1,"num_running_reqs":4}]}')
    assert report is not None
    assert list(report) == ["timestamp", "version", "dp_rank_count", "loads"]
    assert report["loads"] == [
        {
            "dp_rank": 1,
            "num_running_reqs": 4,
            "num_waiting_reqs": 0,
            "num_waiting_uncached_tokens": 0,
            "num_total_reqs": 0,
            "num_used_tokens": 0,
            "max_total_num_tokens": 0,
            "token_usage": 0.0,
            "gen_throughput": 0.0,
            "cache_hit_rate": 0.0,
            "utilization": 0.0,
            "max_running_requests": 0,
        }
    ]


def test_memory_and_queues_are_kept_when_told() -> None:
    rank = b'{"memory":{"weight_gb":1.5},"queues":{"waiting":2}}'
    report = from_loads(b'{"loads":[' + rank + b"]}")
    assert report is not None
    (entry,) = report["loads"]
    assert entry["memory"] == {
        "weight_gb": 1.5,
        "kv_cache_gb": 0.0,
        "graph_gb": 0.0,
        "token_capacity": 0,
    }
    assert entry["queues"] == {"waiting": 2, "grammar": 0, "paused": 0, "retracted": 0}


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"[]", b"3", b"{}", b'{"loads":{}}', b'{"loads":[]}', b"[" * 5000],
)
def test_what_is_no_report_is_none(body: bytes) -> None:
    assert from_loads(body) is None


def test_nonsense_numbers_can_still_be_written_out() -> None:
    body = (
        b'{"timestamp":"\\ud800","loads":[{"num_running_reqs":1e300,'
        b'"num_waiting_reqs":-5,"token_usage":NaN,"num_used_tokens":true,'
        b'"cache_hit_rate":"x","dp_rank":null}]}'
    )
    report = from_loads(body)
    assert report is not None
    (entry,) = report["loads"]
    assert entry["num_running_reqs"] == 1 << 53
    assert (entry["num_waiting_reqs"], entry["token_usage"]) == (0, 0.0)
    assert ujson.loads(ujson.dumps(report, ensure_ascii=False)) == report


def test_vllm_metrics_are_summed_and_the_cache_usage_averaged() -> None:
    report = from_metrics(VLLM)
    assert report is not None
    (entry,) = report["loads"]
    assert (entry["num_running_reqs"], entry["num_waiting_reqs"]) == (5, 2)
    assert entry["token_usage"] == 0.5


def test_the_older_name_of_the_cache_gauge_counts_when_alone() -> None:
    page = b"vllm:gpu_cache_usage_perc 0.5\n"
    report = from_metrics(page)
    assert report is not None and report["loads"][0]["token_usage"] == 0.5
    report = from_metrics(page + b"vllm:kv_cache_usage_perc 0.25\n")
    assert report is not None and report["loads"][0]["token_usage"] == 0.25


@pytest.mark.parametrize("mark", [b"sglang:", b"sglang_"])
def test_both_spellings_of_sglang_metrics_are_read(mark: bytes) -> None:
    names = b"num_running_reqs 3\nnum_queue_reqs 1\ntoken_usage 0.1\ngen_throughput 9.5"
    page = b"\n".join(mark + line for line in names.splitlines())
    report = from_metrics(page)
    assert report is not None
    (entry,) = report["loads"]
    assert (entry["num_running_reqs"], entry["num_waiting_reqs"]) == (3, 1)
    assert (entry["token_usage"], entry["gen_throughput"]) == (0.1, 9.5)


def test_a_page_without_the_cache_gauge_is_no_report() -> None:
    assert from_metrics(b"vllm:num_requests_running 3\n") is None
    assert from_metrics(b"vllm:kv_cache_usage_perc NaN\n") is None
    assert from_metrics(b"\xff\x00") is None
