"""A headless browser, and the server of the one page that it shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
)


def browser() -> str:
    """The path of a browser; skips the test where there is none."""
    for name in _NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip("no chromium is installed: apt-get install chromium")


class PageServer:
    """Gives a browser its page, and takes what the page posts to /seen."""

    def __init__(self, page: bytes) -> None:
        self.seen: asyncio.Future[dict[str, Any]]
        self.seen = asyncio.get_running_loop().create_future()
        self._page = page

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Its port, while it listens."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = b""
            if head.startswith(b"get / ") or head.startswith(b"get /?"):
                body = self._page
            elif head.startswith(b"post /seen "):
                size = int(head.partition(b"content-length:")[2].split()[0])
                posted = json.loads(await reader.readexactly(size))
                if not self.seen.done():
                    self.seen.set_result(posted)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def browse(page: bytes, query: str, profile: Path) -> dict[str, Any]:
    """Show a page, and give what it posts to /seen. ``profile``: an empty folder."""
    server = PageServer(page)
    async with server.listening() as port:
        child = await asyncio.create_subprocess_exec(
            *(browser(), *_FLAGS, f"--user-data-dir={profile}"),
            f"http://127.0.0.1:{port}/?{query}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        gone = asyncio.ensure_future(child.wait())
        either: set[asyncio.Future[Any]] = {gone, server.seen}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            assert server.seen.done(), f"the browser ended: {child.returncode}"
            return server.seen.result()
        finally:
            # Its helpers are in its group; none of them is to outlive the test.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await gone
