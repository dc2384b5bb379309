"""/loads and /get_loads: the last load report of every worker, without asking any."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from smgproxy import __version__
from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.replies import Reply, json_reply
from smgproxy.fleet.registry import Registry


class Loads:
    """Shows the load monitor's snapshot, one entry a data-parallel rank."""

    __slots__ = ("_registry", "_aliases")

    def __init__(self, registry: Registry, aliases: dict[str, str]) -> None:
        self._registry = registry
        self._aliases = aliases

    async def show(self, request: ControlRequest) -> Reply:
        """GET /loads: of all workers, or of those that serve ``?model=``."""
        model = request.query().get("model")
        if model is not None:
            model = self._aliases.get(model, model)
        loads = [
            {"worker": worker.url, "worker_type": worker.worker_type, **entry}
            for worker in self._registry.all()
            if worker.engine_load is not None
            and (model is None or worker.serves(model))
            for entry in worker.engine_load["loads"]
        ]
        answer: dict[str, Any] = {
            "timestamp": datetime.now(UTC).isoformat(),
            "version": f"smg-{__version__}",
            "dp_rank_count": len(loads),
            "loads": loads,
        }
        if loads:
            answer["aggregate"] = _aggregate(loads)
        return json_reply(200, answer)


def _aggregate(loads: list[dict[str, Any]]) -> dict[str, Any]:
    running, waiting = (
        sum(entry[name] for entry in loads)
        for name in ("num_running_reqs", "num_waiting_reqs")
    )
    means = {
        name: sum(entry[name] for entry in loads) / len(loads)
        for name in ("token_usage", "gen_throughput", "utilization")
    }
    return {
        "total_running_reqs": running,
        "total_waiting_reqs": waiting,
        "total_reqs": running + waiting,
        "avg_token_usage": round(means["token_usage"], 4),
        "avg_throughput": round(means["gen_throughput"], 2),
        "avg_utilization": round(means["utilization"], 4),
    }
