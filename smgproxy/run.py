"""One gateway from its start to its exit status."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import MutableMapping

import uvloop

from smgproxy.gateway import Gateway
from smgproxy.places import StartError
from smgproxy.settings import Settings
from smgproxy.simulated.launch import SimulatedWorkersError
from smgproxy.system.limits import raise_open_files_limit
from smgproxy.system.sockets import PassedSocketError
from smgproxy.tls.certificates import TlsFileError

_START_ERRORS = (StartError, PassedSocketError, SimulatedWorkersError, TlsFileError)


def run(settings: Settings, environ: MutableMapping[str, str]) -> int:
    """Serve until told to stop; the exit status.

    0 after SIGTERM, 130 after SIGINT, 1 when it could not start.
    """
    raise_open_files_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_serve(settings, environ))
        except _START_ERRORS as error:
            print(f"smg launch: {error}", file=sys.stderr)
            return 1


async def _serve(settings: Settings, environ: MutableMapping[str, str]) -> int:
    gateway = Gateway(settings, environ)
    try:
        await gateway.start()
        return await gateway.serve()
    finally:
        await gateway.close()
