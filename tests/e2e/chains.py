"""Workers of several models, and gateways in which b and then c stand in for a."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from smgproxy.fleet.worker import WorkerState
from smgproxy.routing.fallback import Chain, FallbackOptions
from tests.e2e.stage import Stage, play
from tests.fakes.client import Answer
from tests.fakes.worker import Script, say_ok

SERVED = "x-smg-served-model"
_MODEL = re.compile(rb'"model": ?("[^"]*")')
CHAIN = FallbackOptions((Chain("a", ("b", "c")),))


def is_away(stage: Stage, *models: str) -> None:
    """The probes of these models' workers fail, and no others'."""
    for record in stage.records:
        is_bad = record.models[0]["id"] in models
        state = WorkerState.NOT_READY if is_bad else WorkerState.READY
        stage.gateway.registry.set_state(record, state)


def models_asked(stage: Stage) -> list[list[bytes]]:
    """The raw model in each body that each worker got."""
    return [
        [_MODEL.findall(one.body)[0] for one in each.received] for each in stage.workers
    ]


def served(answer: Answer) -> tuple[int, str | None]:
    """Status, and the model that is said to have served."""
    return answer.status, answer.get(SERVED)


def play_chain(
    scene: Callable[[Stage], Awaitable[None]],
    models: str = "abc",
    *scripts: Script,
    **rooms: Any,
) -> None:
    """A scene with a worker for each of these models."""

    async def run(stage: Stage) -> None:
        for record, model in zip(stage.records, models, strict=True):
            record.models = [{"id": model}]
        stage.gateway.registry.changed()
        await scene(stage)

    whole = (*scripts, *[say_ok] * (len(models) - len(scripts)))
    play(run, *whole, **{"fallbacks": CHAIN, **rooms})
