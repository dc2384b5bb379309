"""The rules themselves, each on code that breaks it, or just does not."""

import pytest

from tests.architecture_rules import (
    MAX_LINES,
    Module,
    Rule,
    asyncio_elsewhere,
    catch_alls,
    environment_readers,
    folders_without_init,
    import_cycles,
    long_modules,
    prints_elsewhere,
    queues_and_events,
    sleeps_of_nothing,
    tasks_elsewhere,
    unknown_rooms,
    upward_arrows,
)

FOR_TYPES_ONLY = "if TYPE_CHECKING:\n    from "

WRONG = [
    (upward_arrows, "wire/a.py", "from smgproxy.api import chat"),
    (upward_arrows, "core/a.py", "def f():\n    import smgproxy.wire.sse"),
    (upward_arrows, "wire/a.py", "from ..api.chat import parse"),
    (upward_arrows, "wire/__init__.py", "from ..api.chat import parse"),
    (upward_arrows, "core/a.py", "from smgproxy import gateway"),
    (upward_arrows, "cli.py", "from smgproxy.dispatch import serve"),
    (upward_arrows, "upstream/pool.py", "import smgproxy.pb.vllm"),
    (upward_arrows, "core/a.py", f"{FOR_TYPES_ONLY}smgproxy.api.chat import Call"),
    (unknown_rooms, "helpers/__init__.py", ""),
    (unknown_rooms, "utils.py", ""),
    (folders_without_init, "routing/policies/a.py", ""),
    (import_cycles, "core/a.py", "from smgproxy.core.a_peer import x"),
    (asyncio_elsewhere, "wire/a.py", "import asyncio"),
    (asyncio_elsewhere, "fleet/worker.py", "from asyncio import Future"),
    (asyncio_elsewhere, "core/flow_more.py", "import asyncio.sslproto"),
    (tasks_elsewhere, "dispatch/forward.py", "asyncio.create_task(f())"),
    (tasks_elsewhere, "fleet/health.py", "loop.create_task(f())"),
    (tasks_elsewhere, "upstream/pool.py", "asyncio.ensure_future(f())"),
    (queues_and_events, "gateway.py", "stop = asyncio.Event()"),
    (queues_and_events, "core/flow.py", "from asyncio import Queue"),
    (sleeps_of_nothing, "gateway.py", "asyncio.sleep(0)"),
    (catch_alls, "core/a.py", "try: f()\nexcept: pass"),
    (catch_alls, "core/a.py", "try: f()\nexcept (OSError, Exception): pass"),
    (catch_alls, "dispatch/forward.py", "try: f()\nexcept BaseException: raise"),
    (catch_alls, "core/a.py", "with contextlib.suppress(Exception): f()"),
    (long_modules, "core/a.py", "x = 1\n" * (MAX_LINES + 1)),
    (prints_elsewhere, "dispatch/serve.py", "print('here')"),
    (environment_readers, "gateway.py", "os.environ['HOME']"),
    (environment_readers, "settings.py", "sys.argv"),
]

RIGHT = [
    (upward_arrows, "wire/a.py", "from smgproxy.core.flow import Sink"),
    (upward_arrows, "wire/a.py", "from . import sse\nfrom .sse import split"),
    (upward_arrows, "control/a.py", "from smgproxy import __version__"),
    (upward_arrows, "gateway.py", "import smgproxy.dispatch.serve"),
    (upward_arrows, "upstream/grpc.py", "import smgproxy.pb.vllm"),
    (folders_without_init, "core/__init__.py", ""),
    (import_cycles, "core/b.py", "from smgproxy.core.a_peer import x"),
    (import_cycles, "core/a.py", f"{FOR_TYPES_ONLY}smgproxy.core.a_peer import x"),
    (asyncio_elsewhere, "downstream/http1.py", "import asyncio"),
    (tasks_elsewhere, "dispatch/serve.py", "loop.create_task(f())"),
    (tasks_elsewhere, "fleet/health.py", "self._start(loop())"),
    (queues_and_events, "core/a.py", "threading.Event()"),
    (sleeps_of_nothing, "dispatch/retry.py", "asyncio.sleep(delay_secs)"),
    (catch_alls, "gateway.py", "try: f()\nexcept Exception: pass"),
    (catch_alls, "core/a.py", "try: f()\nexcept (OSError, ValueError): pass"),
    (long_modules, "core/a.py", "x = 1\n" * MAX_LINES),
    (prints_elsewhere, "cli.py", "print('usage')"),
    (environment_readers, "cli.py", "os.environ"),
]

# Beside the module under test: one that imports it back when it is core/a.py.
NEIGHBOURS = [
    Module("core/__init__.py", ""),
    Module("core/a_peer.py", "from smgproxy.core.a import y"),
]


@pytest.mark.parametrize(("rule", "place", "source"), WRONG)
def test_rule_sees_what_breaks_it(rule: Rule, place: str, source: str) -> None:
    assert len(rule([Module(place, source), *NEIGHBOURS])) == 1


@pytest.mark.parametrize(("rule", "place", "source"), RIGHT)
def test_rule_lets_the_rest_pass(rule: Rule, place: str, source: str) -> None:
    assert rule([Module(place, source), *NEIGHBOURS]) == []
