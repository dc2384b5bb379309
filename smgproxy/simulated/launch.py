"""Start and stop simulated workers beside the gateway, as a child of it."""

import asyncio
import sys
from pathlib import Path

import ujson

from smgproxy.simulated.options import SimulatedOptions

START_SECS = 15.0
STOP_SECS = 5.0

# `-m` looks in the working directory first: from here the child finds the code
# that runs here, and nothing that lies where the gateway was started.
_ROOT = Path(__file__).resolve().parents[2]


class SimulatedWorkersError(RuntimeError):
    """The simulated workers did not come up; the text says why."""


class SimulatedWorkers:
    """A child that serves `options.count` workers while this program lives.

    The child ends when its standard input does, so it is gone soon after its
    parent even if the parent was killed.
    """

    __slots__ = ("_options", "_child")

    def __init__(self, options: SimulatedOptions) -> None:
        self._options = options
        self._child: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The child's id, while one was started and not stopped."""
        return None if self._child is None else self._child.pid

    async def start(self) -> list[str]:
        """Start the child and return the URLs, once all of them listen."""
        if self._child is not None:
            raise SimulatedWorkersError("simulated workers are already started")
        self._child = child = await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=_ROOT,
            # Ctrl-C in a terminal is for the gateway, which drains first.
            start_new_session=True,
        )
        assert child.stdout is not None
        try:
            line = await asyncio.wait_for(child.stdout.readline(), START_SECS)
            if line:
                return [str(url) for url in ujson.loads(line)["urls"]]
            code = await asyncio.wait_for(child.wait(), STOP_SECS)
            reason = f"they ended with exit code {code}"
        except TimeoutError:
            reason = f"they did not listen within {START_SECS:g} s"
        except (ValueError, KeyError):
            reason = "they did not name their URLs"
        except asyncio.CancelledError:
            await self.stop()
            raise
        await self.stop()
        raise SimulatedWorkersError(f"simulated workers did not start: {reason}")

    async def stop(self) -> None:
        """End the child, by force if it takes too long; fine to call twice."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), STOP_SECS)
        except TimeoutError:
            child.kill()
            await child.wait()

    def _command(self) -> list[str]:
        options = self._options
        return [
            sys.executable,
            "-m",
            "smgproxy.simulated",
            f"--count={options.count}",
            f"--model={options.model}",
            f"--ttft-ms={options.ttft_ms!r}",
            f"--tokens-per-second={options.tokens_per_second!r}",
        ]
