"""Large bodies: others have turns between the steps, and one is read at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from smgproxy.api.steps import Steps
from smgproxy.dispatch.turns import LargeBodies


def steps(name: str, seen: list[str], count: int = 2) -> Steps[str]:
    for number in range(count):
        seen.append(f"{name}{number}")
        yield
    return name


def test_others_have_a_turn_behind_each_step_of_a_large_one() -> None:
    async def scene() -> None:
        seen: list[str] = []
        loop = asyncio.get_running_loop()

        def tick() -> None:
            seen.append("other")
            if seen.count("other") < 10:
                loop.call_soon(tick)

        loop.call_soon(tick)
        assert await LargeBodies().read(steps("a", seen)) == "a"
        order = [name for place, name in enumerate(seen) if name != seen[place - 1]]
        assert order == ["a0", "other", "a1", "other"]

    asyncio.run(scene())


def test_one_large_body_is_read_at_a_time() -> None:
    async def scene() -> None:
        seen: list[str] = []
        large = LargeBodies()
        first, second = await asyncio.gather(
            large.read(steps("a", seen)),
            large.read(steps("b", seen)),
        )
        assert (first, second) == ("a", "b")
        assert seen == ["a0", "a1", "b0", "b1"]

    asyncio.run(scene())


def test_a_body_that_is_refused_lets_the_next_one_in() -> None:
    def refuses() -> Steps[str]:
        yield
        raise ValueError

    async def scene() -> None:
        large = LargeBodies()
        with pytest.raises(ValueError):
            await large.read(refuses())
        assert await large.read(steps("a", [])) == "a"

    asyncio.run(scene())


def test_a_body_given_up_between_two_steps_leaves_no_error() -> None:
    async def scene() -> None:
        faults: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, fault: faults.append(fault))
        seen: list[str] = []
        work = asyncio.create_task(LargeBodies().read(steps("a", seen, 9)))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await asyncio.sleep(0)
        assert (seen, faults) == (["a0"], [])

    asyncio.run(scene())
