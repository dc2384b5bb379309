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
    comes, goes or changes state, or its breaker does. Who has more to keep in step is
    told of each such change.
    """

    __slots__ = (
        *("_workers", "_by_url", "_ready", "_canonical", "_model_count"),
        "_watchers",
    )

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}  # by id; dict order = registration order
        self._by_url: dict[str, Worker] = {}
        # Served names and who is ready for each; None = to be made again.
        self._ready: dict[str, tuple[Worker, ...]] | None = None
        self._canonical: dict[str, str] | None = None  # what each served name is for
        self._model_count: int | None = None
        self._watchers: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._workers)

    def watch(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` after each change, from now on."""
        self._watchers.append(tell)

    def all(self) -> list[Worker]:
        """Every registered worker, in order of registration (ruling 18)."""
        return list(self._workers.values())

    def get(self, worker_id: str) -> Worker | None:
        """A worker by its id."""
        return self._workers.get(worker_id)

    def by_url(self, url: str) -> Worker | None:
        """A worker by the URL it was registered with, compared literally."""
        return self._by_url.get(url)

    def add(self, *workers: Worker) -> None:
        """Register, as one change; the caller made sure that ids and URLs are new.

        A slow starter still takes the place in which it was asked for.
        """
        for worker in workers:
            self._workers[worker.id] = worker
            self._by_url[worker.url] = worker
            worker.breaker.on_change = self._changed
        ordered = sorted(self._workers.values(), key=lambda one: one.order)
        self._workers = {one.id: one for one in ordered}
        self._changed()

    def remove(self, worker: Worker) -> None:
        """Unregister; exchanges it is running go on."""
        if self._workers.pop(worker.id, None) is not None:
            del self._by_url[worker.url]
            worker.is_removed = True
            self._changed()

    def set_state(self, worker: Worker, state: WorkerState) -> None:
        """Move a worker to another state."""
        if worker.state is not state:
            was_down = worker.state in (WorkerState.NOT_READY, WorkerState.FAILED)
            worker.state = state
            if state is not WorkerState.READY:
                # What it reported while it was well says nothing about now.
                worker.engine_load = None
                worker.is_overloaded = False
            self._changed()
            if was_down and state is WorkerState.READY:
                worker.breaker.note_health_returned()

    def set_overloaded(self, worker: Worker, is_overloaded: bool) -> None:
        """Note the verdict on a worker's last load report."""
        if worker.is_overloaded is not is_overloaded:
            worker.is_overloaded = is_overloaded
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

    def canonical(self, name: str) -> str | None:
        """The id of the first card that has ``name`` as id or alias; None for none.

        An id wins over an alias. "unknown" stands for itself while there are workers.
        """
        names = self._canonical
        if names is None:
            names = self._canonical = self._canonical_names()
        return names.get(name)

    def only_model(self) -> str | None:
        """The model served, when there is just one."""
        models = self.models()
        return models[0] if len(models) == 1 else None

    def models(self) -> list[str]:
        """Canonical model ids, each once, in order of registration."""
        workers = self._workers.values()
        return list(dict.fromkeys(c["id"] for one in workers for c in one.models))

    @property
    def model_count(self) -> int:
        """How many models are registered."""
        count = self._model_count
        if count is None:
            count = self._model_count = len(self.models())
        return count

    def _by_name(self) -> dict[str, tuple[Worker, ...]]:
        found: dict[str, list[Worker]] = {}
        for worker in self._workers.values():
            for name in {UNKNOWN_MODEL, *worker.served_names()}:
                workers = found.setdefault(name, [])
                if worker.is_ready:
                    workers.append(worker)
        return {name: tuple(workers) for name, workers in found.items()}

    def _canonical_names(self) -> dict[str, str]:
        cards = [card for one in self._workers.values() for card in one.models]
        names: dict[str, str] = {}
        for card in cards:
            for alias in card.get("aliases", ()):
                names.setdefault(alias, card["id"])
        names |= {card["id"]: card["id"] for card in cards}
        if self._workers:
            names[UNKNOWN_MODEL] = UNKNOWN_MODEL
        return names

    def _changed(self) -> None:
        self._ready = None
        self._canonical = None
        self._model_count = None
        for tell in self._watchers:
            tell()
