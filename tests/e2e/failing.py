"""Workers that fail in set ways, and retries that take no time."""

from __future__ import annotations

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.fleet.spec import parse_spec
from smgproxy.fleet.worker import Worker
from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually
from tests.fakes.client import Answer, post
from tests.fakes.worker import Connection, Received, Script

# Five attempts, as by default.
FAST = RetryOptions(retry_initial_backoff_ms=1, retry_max_backoff_ms=1)


def says(*statuses: int, headers: str = "") -> Script:
    """A worker that answers with these statuses in turn, then with the last one."""
    left = list(statuses)

    async def script(connection: Connection, request: Received) -> None:
        status = left.pop(0) if len(left) > 1 else left[0]
        await connection.answer(b'{"said":%d}' % status, status, headers)

    return script


async def drops(connection: Connection, request: Received) -> None:
    """A worker that closes instead of answering."""
    connection.close()


async def cuts(connection: Connection, request: Received) -> None:
    """A worker that closes in the middle of its answer's body."""
    await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab")
    connection.close()


async def hangs(connection: Connection, request: Received) -> None:
    """A worker that never answers."""
    await connection.until_gone()


async def breaks_off(connection: Connection, request: Received) -> None:
    """A worker whose event stream breaks off after its first event."""
    await connection.start_stream()
    await connection.chunk(b"data: 1\n\n")
    connection.close()


async def ask(stage: Stage, request: bytes = b"") -> Answer:
    """One request by a client of its own."""
    return await stage.ask(request or post())


def outcome(answer: Answer) -> tuple[int, str]:
    """Status and error code of an answer that the gateway made."""
    code = answer.get("x-smg-error-code")
    assert error_of(answer)["code"] == code
    assert code is not None
    return answer.status, code


def received(stage: Stage) -> list[int]:
    """How many requests each worker got, resends included."""
    return [len(worker.received) for worker in stage.workers]


async def register(stage: Stage, **spec: object) -> Worker:
    """Register the only worker as POST /workers would, in place of the ready-made."""
    [record] = stage.records
    stage.gateway.registry.remove(record)
    stage.gateway.fleet.add(parse_spec({"url": stage.worker.url, **spec}))
    await eventually(lambda: [one for one in stage.records if one.is_ready])
    return stage.records[0]
