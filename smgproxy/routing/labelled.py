"""Workers that do what not all do, and say so by a label (seed: Realtime API)."""

from __future__ import annotations

from smgproxy.core.errors import ModelNotFound, NoAvailableWorkers
from smgproxy.fleet.registry import UNKNOWN_MODEL, Registry
from smgproxy.fleet.worker import Worker

REALTIME = "realtime"


class LabelledRouter:
    """Picks among the workers of a model that carry a label of ``"true"``.

    The least loaded, by turns where several are: what comes here stays for minutes,
    so nothing is won by sending it where its prompt has been before.
    """

    __slots__ = ("_registry", "_label", "_turn")

    def __init__(self, registry: Registry, label: str = REALTIME) -> None:
        self._registry = registry
        self._label = label
        self._turn = 0

    def pick(self, model: str, now: float) -> Worker:
        """The worker for one session or request, charged until ``release``.

        Raises ModelNotFound when none with the label serves the model, whatever its
        state, and NoAvailableWorkers when none of them can be picked.
        """
        registry = self._registry
        name = registry.canonical(model)
        if name is None:
            raise ModelNotFound(model)
        labelled = [
            one
            for one in registry.all()
            if one.labels.get(self._label) == "true"
            and (name == UNKNOWN_MODEL or one.serves(name))
        ]
        if not labelled:
            raise ModelNotFound(model)
        ready = [one for one in labelled if one.is_ready and one.breaker.admits(now)]
        # Where all are overloaded, a session is better off there than nowhere.
        ready = [one for one in ready if not one.is_overloaded] or ready
        if not ready:
            raise NoAvailableWorkers()
        self._turn += 1
        turn = self._turn % len(ready)
        worker = min(ready[turn:] + ready[:turn], key=lambda one: one.load)
        worker.load += 1
        return worker

    def release(self, worker: Worker) -> None:
        """It is over, however it ended."""
        worker.load -= 1
