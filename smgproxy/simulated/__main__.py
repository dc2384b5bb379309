"""`python -m smgproxy.simulated`: workers to talk to, in a program of their own.

Prints one line of JSON with their URLs once all listen, and serves until its
standard input ends, so that it never outlives the gateway that started it.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import ujson
import uvloop

from smgproxy.simulated.options import SimulatedOptions
from smgproxy.simulated.server import SimulatedServer


def parse(argv: list[str]) -> tuple[SimulatedOptions, int]:
    """Read the command line: the options, and the first port (0 = any free)."""
    default = SimulatedOptions()
    parser = argparse.ArgumentParser(
        "python -m smgproxy.simulated", description=__doc__
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--count", type=int, default=default.count)
    parser.add_argument("--model", default=default.model)
    parser.add_argument("--ttft-ms", type=float, default=default.ttft_ms)
    parser.add_argument(
        "--tokens-per-second", type=float, default=default.tokens_per_second
    )
    found = parser.parse_args(argv)
    try:
        options = SimulatedOptions(
            found.count, found.model, found.ttft_ms, found.tokens_per_second
        )
    except ValueError as error:
        parser.error(str(error))
    if not 0 <= found.port <= 65536 - options.count:
        parser.error("--port must leave room for all workers below 65536")
    return options, found.port


async def serve(options: SimulatedOptions, first_port: int) -> None:
    """Run all workers until told to stop."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not stop.done():
            stop.set_result(None)

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, end)
    servers = [SimulatedServer(options) for _ in range(options.count)]
    try:
        urls = [
            await server.start(first_port + index if first_port else 0)
            for index, server in enumerate(servers)
        ]
        sys.stdout.write(ujson.dumps({"urls": urls}, escape_forward_slashes=False))
        sys.stdout.write("\n")
        sys.stdout.flush()
        _watch_stdin(loop, end)
        await stop
    finally:
        for server in servers:
            await server.close()


def _watch_stdin(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
    """Call `end` when standard input is over, whatever kind of file it is.

    A thread, because a loop cannot watch every kind, and would make a terminal
    non-blocking for the shell that shares it.
    """

    def watch() -> None:
        # A terminal that hung up or a reset pipe is an end, too.
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        # The loop may have been closed by a signal in the meantime.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(end)

    threading.Thread(target=watch, name="stdin", daemon=True).start()


def main() -> None:
    """Run the command; a port that is taken is one line and exit 1."""
    options, first_port = parse(sys.argv[1:])
    try:
        uvloop.run(serve(options, first_port))
    except OSError as error:
        sys.exit(f"simulated workers cannot listen: {error}")


if __name__ == "__main__":
    main()
