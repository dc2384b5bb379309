"""Sessions that a real browser opens: its key among the subprotocols, its closes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.server import ServerConnection

from smgproxy.admission.keys import Keys, Secret
from tests.e2e.browsing import browse, browser
from tests.e2e.realtime_worker import echo, played, url
from tests.e2e.stage import Stage

PAGE = Path(__file__).parent / "browser" / "realtime.html"
GUIDE = Path(__file__).parents[2] / "docs" / "realtime.md"
KEYS = Keys(shared=[Secret("sk-gw")])


def test_a_browser_has_a_session(tmp_path: Path) -> None:
    browser()
    seen: dict[str, Any] = {}
    handshakes: list[list[str]] = []
    closes: list[tuple[int | None, str | None]] = []

    async def note(socket: ServerConnection) -> None:
        assert socket.request is not None
        offered = socket.request.headers.get_all("Sec-WebSocket-Protocol")
        handshakes.append([*offered, str(socket.request.headers.get("Authorization"))])
        await echo(socket)
        closes.append((socket.close_code, socket.close_reason))

    async def scene(stage: Stage) -> None:
        query = urlencode({"ws": url(stage), "key": "sk-gw"})
        seen.update(await browse(PAGE.read_bytes(), query, tmp_path))

    played(scene, script=note, keys=KEYS)
    assert seen == {
        "protocol": "realtime",
        "extension": "permessage-deflate",
        "echoed": ["h\u00e4llo", "", "object:3", "string:3000000"],
        "close": [4002, "all is said", True],
        "told": [4001, "as you wish", True],
        "lost": [1011, "the connection to the worker is lost", True],
        # A browser tells its page no more of a refused handshake.
        "stranger": [1006, "", False],
        "nobody": [1006, "", False],
    }
    # The key opened the gateway and stayed there.
    assert handshakes == [["realtime, beta", "None"]] * 3
    assert closes[0] == (4002, "all is said")


def test_the_page_of_the_guide_works(tmp_path: Path) -> None:
    browser()
    (page,) = re.findall(r"```html\n(.*?)```", GUIDE.read_text(), re.DOTALL)

    async def greet(socket: ServerConnection) -> None:
        await socket.send("good day")
        await socket.close(4001, str(await socket.recv()))

    async def scene(stage: Stage) -> None:
        guided = page.replace(
            "ws://127.0.0.1:30000/v1/realtime?model=sim-model", url(stage)
        ).replace("your-api-key", "sk-gw")
        assert guided.count("sk-gw") == 1 and url(stage) in guided
        seen = await browse((guided + _VISITOR).encode(), "", tmp_path)
        said = '{"type":"echo","text":"hi"}'
        assert seen == {"log": f"good day\nclosed: 4001 {said}\n"}

    played(scene, script=greet, keys=KEYS)


# Types a word when it is greeted, and reports the page when the session is over.
_VISITOR = """
<script>
  new MutationObserver(() => {
    const text = document.getElementById("log").textContent;
    if (text === "good day\\n") {
      const say = document.getElementById("say");
      say.value = "hi";
      say.dispatchEvent(new Event("change"));
    } else if (text.includes("closed")) {
      fetch("/seen", { method: "POST", body: JSON.stringify({ log: text }) });
    }
  }).observe(document.getElementById("log"), { childList: true });
</script>
"""
