"""The --health-check-port listener, on a thread and an event loop of its own.

A supervisor's probe must be answered even while the main loop is busy; what the
probes look at are a few plain reads of the registry, safe from another thread.
"""

from __future__ import annotations

import asyncio
import socket
import threading

import uvloop

from smgproxy.api.endpoints import Routes
from smgproxy.dispatch.serve import SideDispatcher
from smgproxy.downstream.listener import ClientTimeouts, Listener
from smgproxy.wire.http1_request import HeadLimits

_JOIN_SECS = 5.0


class ProbeThread:
    """Serves probe routes on a bound socket until stopped."""

    __slots__ = ("_socket", "_routes", "_thread", "_loop", "_is_up")

    def __init__(self, sock: socket.socket, routes: Routes) -> None:
        self._socket = sock
        self._routes = routes
        self._loop = uvloop.new_event_loop()
        self._is_up = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="smgproxy-probes", daemon=True
        )

    def start(self) -> None:
        """Begin; returns when the port is being served."""
        self._thread.start()
        self._is_up.wait(_JOIN_SECS)

    def stop(self) -> None:
        """Stop serving, and wait for the thread's end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_SECS)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        dispatcher = SideDispatcher(self._routes, loop)
        listener = Listener(ClientTimeouts(), HeadLimits(), dispatcher.on_exchange)
        loop.run_until_complete(listener.start([self._socket]))
        self._is_up.set()
        try:
            loop.run_forever()
        finally:
            listener.close()
            # One turn for the connections to hear that they are lost.
            loop.run_until_complete(asyncio.sleep(0.01))
            loop.close()
