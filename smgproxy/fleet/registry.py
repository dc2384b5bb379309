"""The registered workers, by id, by URL and by model, in order of registration."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.fleet.worker import Worker, WorkerState

# The model name under which a worker without identity is registered; a request that
# names it (or names no model) may go anywhere.
UNKNOWN_MODEL = "unknown"


class Registry:
    """What is registered, and who of it may serve a model right now.

    ``candidates`` is asked for each attempt, by clients of any manners, so all its
    answers are made at once, for the names that workers serve, and kept until a worker
    comes, goes or changes state; ``version`` grows with each such change, and
    ``on_change`` is called.
    """

    __slots__ = ("_workers", "_ready", "version", "on_change")

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}  # by id; dict order = registration order
        # Served names and who is ready for each; None = to be made again.
        self._ready: dict[str, tuple[Worker, ...]] | None = None
        self.version = 0
        self.on_change: Callable[[], None] | None = None

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
        """A worker's models or labels changed."""
        self._changed()

    def ready(self) -> tuple[Worker, ...]:
        """Every worker that may receive traffic."""
        return self.candidates(UNKNOWN_MODEL)

    def candidates(self, model: str) -> tuple[Worker, ...]:
        """The ready workers that serve ``model``; for "unknown" every ready worker."""
        ready = self._ready
        if ready is None:
            ready = self._ready = self._by_name()
        return ready.get(model, ())

    def is_served(self, model: str) -> bool:
        """Whether any registered worker, ready or not, serves ``model``."""
        ready = self._ready
        if ready is None:
            ready = self._ready = self._by_name()
        return model in ready

    def models(self) -> list[str]:
        """Canonical model ids, each once, in order of registration."""
        workers = self._workers.values()
        return list(dict.fromkeys(c["id"] for one in workers for c in one.models))

    def _by_name(self) -> dict[str, tuple[Worker, ...]]:
        found: dict[str, list[Worker]] = {}
        for worker in self._workers.values():
            for name in {UNKNOWN_MODEL, *worker.served_names()}:
                workers = found.setdefault(name, [])
                if worker.is_ready:
                    workers.append(worker)
        return {name: tuple(workers) for name, workers in found.items()}

    def _changed(self) -> None:
        self._ready = None
        self.version += 1
        if self.on_change is not None:
            self.on_change()
