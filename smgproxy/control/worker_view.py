"""A worker as the worker API shows it; the order of the fields is the contract's."""

from __future__ import annotations

from typing import Any

from smgproxy.fleet.jobs import Job
from smgproxy.fleet.worker import Worker

MAX_CONNECTION_ATTEMPTS = 20


def worker_view(worker: Worker, job: Job | None = None) -> dict[str, Any]:
    """One entry of GET /workers, and GET /workers/{id}. Never the worker's key."""
    view: dict[str, Any] = {"id": worker.id}
    if worker.models:
        view["model_id"] = worker.model_id
    view["url"] = worker.url
    if worker.models:
        view["models"] = worker.models
    view["worker_type"] = worker.worker_type
    view["connection_mode"] = "http"
    view["runtime_type"] = worker.runtime_type
    if worker.labels:
        view["labels"] = worker.labels
    view["priority"] = worker.priority
    view["cost"] = worker.cost
    view.update(worker.spec)
    if worker.dp_rank is not None:
        view["dp_base_url"] = worker.base_url
        view["dp_rank"] = worker.dp_rank
        view["dp_size"] = worker.dp_size
    view["max_connection_attempts"] = MAX_CONNECTION_ATTEMPTS
    view["is_healthy"] = worker.is_ready
    view["status"] = worker.state.value
    view["load"] = worker.load
    view["http2"] = worker.http2
    if worker.engine_load is not None:
        view["engine_load"] = worker.engine_load
    if job is not None:
        view["job_status"] = job.shown()
    return view


def pending_view(worker_id: str, url: str, job: Job | None) -> dict[str, Any]:
    """A worker that is still being brought up: defaults, whatever its spec says."""
    return worker_view(Worker(worker_id, url), job)
