"""What a worker tells about itself: models, server facts, loads, metrics.

The shapes are SGLang's (contract sections on worker registration and on load
monitoring), so that the gateway takes a simulated worker for that engine.
"""

from datetime import UTC, datetime

from smgproxy.simulated.batch import Batch
from smgproxy.simulated.replies import to_json

VERSION = "simulated"
CONTEXT_TOKENS = 131_072
CACHE_TOKENS = 1_000_000
MAX_RUNNING = 1024
PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"


class Status:
    """The answers to a worker's GET routes, as they are at this moment."""

    __slots__ = ("_model", "_batch", "_created")

    def __init__(self, model: str, batch: Batch, created: int) -> None:
        self._model = model
        self._batch = batch
        self._created = created

    def models(self) -> bytes:
        """`/v1/models`: one model, whose owner tells the gateway the engine."""
        card = {
            "id": self._model,
            "object": "model",
            "created": self._created,
            "owned_by": "sglang",
            "root": self._model,
            "parent": None,
            "max_model_len": CONTEXT_TOKENS,
        }
        return to_json({"object": "list", "data": [card]})

    def server_info(self) -> bytes:
        """`/server_info`: the fields the gateway takes labels from."""
        return to_json(
            {
                "model_path": self._model,
                "served_model_name": self._model,
                "tp_size": 1,
                "dp_size": 1,
                "context_length": CONTEXT_TOKENS,
                "max_total_num_tokens": CACHE_TOKENS,
                "max_running_requests": MAX_RUNNING,
                "is_embedding": False,
                "status": "ready",
                "version": VERSION,
            }
        )

    def model_info(self) -> bytes:
        """`/model_info`: what kind of model it would be."""
        return to_json(
            {
                "model_path": self._model,
                "is_generation": True,
                "has_image_understanding": False,
                "has_audio_understanding": False,
                "model_type": "simulated",
                "architectures": ["SimulatedForCausalLM"],
                "weight_version": "default",
            }
        )

    def loads(self) -> bytes:
        """`/v1/loads`: one data-parallel rank, and the sum of it.

        Nothing ever waits: a simulated worker runs all it is given at once.
        """
        running = self._batch.running
        used = self._used_tokens()
        usage, utilization = used / CACHE_TOKENS, running / MAX_RUNNING
        throughput = self._batch.throughput()
        rank = {
            "dp_rank": 0,
            "num_running_reqs": running,
            "num_waiting_reqs": 0,
            "num_waiting_uncached_tokens": 0,
            "num_total_reqs": running,
            "num_used_tokens": used,
            "max_total_num_tokens": CACHE_TOKENS,
            "token_usage": usage,
            "gen_throughput": throughput,
            "cache_hit_rate": 0.0,
            "utilization": utilization,
            "max_running_requests": MAX_RUNNING,
        }
        total = {
            "total_running_reqs": running,
            "total_waiting_reqs": 0,
            "total_reqs": running,
            "avg_token_usage": usage,
            "avg_throughput": throughput,
            "avg_utilization": utilization,
        }
        return to_json(
            {
                "timestamp": datetime.now(UTC).isoformat(),
                "version": VERSION,
                "dp_rank_count": 1,
                "loads": [rank],
                "aggregate": total,
            }
        )

    def metrics(self) -> bytes:
        """`/metrics`: gauges of what runs now, counters of what ran so far."""
        batch = self._batch
        used = self._used_tokens()
        families = (
            ("num_running_reqs", "gauge", batch.running),
            ("num_queue_reqs", "gauge", 0),
            ("num_used_tokens", "gauge", used),
            ("max_total_num_tokens", "gauge", CACHE_TOKENS),
            ("token_usage", "gauge", used / CACHE_TOKENS),
            ("gen_throughput", "gauge", batch.throughput()),
            ("cache_hit_rate", "gauge", 0.0),
            ("num_requests_total", "counter", batch.started_total),
            ("num_aborted_requests_total", "counter", batch.aborted_total),
            ("prompt_tokens_total", "counter", batch.prompt_tokens_total),
            ("generation_tokens_total", "counter", batch.steps_total),
        )
        name = self._model.replace("\\", r"\\").replace('"', r"\"")
        name = name.replace("\n", r"\n")
        lines = []
        for family, kind, value in families:
            lines.append(f"# TYPE sglang:{family} {kind}")
            lines.append(f'sglang:{family}{{model_name="{name}"}} {float(value)}')
        return ("\n".join(lines) + "\n").encode()

    def _used_tokens(self) -> int:
        # No engine holds more than its cache, whatever the prompts add up to.
        return min(CACHE_TOKENS, self._batch.used_tokens())
