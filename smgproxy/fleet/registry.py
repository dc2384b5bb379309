"""The registered workers, by id, by URL and by model, in order of registration."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker, WorkerState

# The model name under which a worker without identity is registered; a request that
# names it (or names no model) may go anywhere.
UNKNOWN_MODEL = "unknown"


class Registry:
    """What is registered, and who of it may serve a model right now.

    ``candidates`` is asked once for each attempt, so its answers are kept until a
    worker comes, goes or changes state; ``version`` grows with each such change.
    """

    __slots__ = ("_workers", "_candidates", "version")

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}  # by id; dict order = registration order
        self._candidates: dict[str, tuple[Worker, ...]] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._workers)

    def all(self) -> list[Worker]:
        """Every registered worker, in order of registration (ruling 18)."""
        return list(self._workers.values())

    def get(self, worker_id: str) -> Worker | None:
        """A worker by its id."""
        return self._workers.get(worker_id)

    def by_url(self, url: str) -> Worker | None:
        """A worker by the URL it was registered with, compared literally."""
        for worker in self._workers.values():
            if worker.url == url:
                return worker
        return None

    def add(self, worker: Worker) -> None:
        """Register; the caller made sure that id and URL are new.

        A slow starter still takes the place in which it was asked for.
        """
        self._workers[worker.id] = worker
        ordered = sorted(self._workers.values(), key=lambda one: one.order)
        self._workers = {one.id: one for one in ordered}
        self._changed()

    def remove(self, worker: Worker) -> None:
        """Unregister; exchanges it is running go on."""
        if self._workers.pop(worker.id, None) is not None:
            worker.is_removed = True
            self._changed()

    def set_state(self, worker: Worker, state: WorkerState) -> None:
        """Move a worker to another state."""
        if worker.state is not state:
            worker.state = state
            self._changed()

    def changed(self) -> None:
        """A worker's models changed."""
        self._changed()

    def ready(self) -> tuple[Worker, ...]:
        """Every worker that may receive traffic."""
        return self.candidates(UNKNOWN_MODEL)

    def candidates(self, model: str) -> tuple[Worker, ...]:
        """The ready workers that serve ``model``; for "unknown" every ready worker."""
        found = self._candidates.get(model)
        if found is None:
            found = tuple(
                worker
                for worker in self._workers.values()
                if worker.is_ready and (model == UNKNOWN_MODEL or worker.serves(model))
            )
            # Only names that some worker serves are kept: clients choose the others.
            if found:
                self._candidates[model] = found
        return found

    def is_served(self, model: str) -> bool:
        """Whether any registered worker, ready or not, serves ``model``."""
        if model == UNKNOWN_MODEL:
            return bool(self._workers)
        return any(worker.serves(model) for worker in self._workers.values())

    def models(self) -> list[str]:
        """Canonical model ids, each once, in order of registration."""
        workers = self._workers.values()
        return list(dict.fromkeys(c["id"] for one in workers for c in one.models))

    def _changed(self) -> None:
        self._candidates.clear()
        self.version += 1
