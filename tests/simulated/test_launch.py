"""The child beside the gateway: smgproxy/simulated/launch.py and __main__.py."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable

import httpx
import pytest
import uvloop

from smgproxy.simulated.__main__ import parse
from smgproxy.simulated.launch import SimulatedWorkers, SimulatedWorkersError
from smgproxy.simulated.options import SimulatedOptions
from tests.simulated.serving import RawClient, eventually, post

TWO = SimulatedOptions(count=2, model="tiny", ttft_ms=0, tokens_per_second=0)


def play(
    scenario: Callable[[SimulatedWorkers], Awaitable[None]],
    options: SimulatedOptions = TWO,
) -> None:
    async def run() -> None:
        workers = SimulatedWorkers(options)
        try:
            await asyncio.wait_for(scenario(workers), 30)
        finally:
            await workers.stop()
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    uvloop.run(run())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_listening(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rsplit(":", 1)[1]))) == 0


def test_started_workers_serve_and_stopped_ones_are_gone() -> None:
    async def scenario(workers: SimulatedWorkers) -> None:
        urls = await workers.start()
        assert len(set(urls)) == 2
        async with httpx.AsyncClient() as client:
            for url in urls:
                models = (await client.get(f"{url}/v1/models")).json()
                assert models["data"][0]["id"] == "tiny"
        pid = workers.pid
        assert pid is not None
        await workers.stop()
        assert workers.pid is None
        assert not is_alive(pid)
        assert not any(map(is_listening, urls))

    play(scenario)


def test_stop_cuts_a_running_stream() -> None:
    async def scenario(workers: SimulatedWorkers) -> None:
        async with RawClient((await workers.start())[0]) as client:
            body = b'{"prompt":"hi","stream":true,"ignore_eos":true}'
            client.writer.write(post("/v1/completions", body))
            await client.reader.readuntil(b"data: ")
            await workers.stop()
            assert not (await client.reader.read()).endswith(b"0\r\n\r\n")

    play(scenario, SimulatedOptions(ttft_ms=1, tokens_per_second=50))


def test_stop_is_harmless_twice_and_before_start() -> None:
    async def scenario(workers: SimulatedWorkers) -> None:
        await workers.stop()
        await workers.start()
        await workers.stop()
        await workers.stop()

    play(scenario)


def test_child_that_was_killed_leaves_stop_nothing_to_do() -> None:
    async def scenario(workers: SimulatedWorkers) -> None:
        urls = await workers.start()
        assert workers.pid is not None
        os.kill(workers.pid, signal.SIGKILL)
        await eventually(lambda: not is_listening(urls[0]))
        await workers.stop()

    play(scenario)


def test_child_that_dies_at_once_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(workers: SimulatedWorkers) -> None:
        command = [sys.executable, "-c", "raise SystemExit(3)"]
        monkeypatch.setattr(SimulatedWorkers, "_command", lambda self: command)
        with pytest.raises(SimulatedWorkersError, match="exit code 3"):
            await workers.start()
        assert workers.pid is None

    play(scenario)


def test_child_that_never_listens_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(workers: SimulatedWorkers) -> None:
        command = [sys.executable, "-c", "input()"]
        monkeypatch.setattr(SimulatedWorkers, "_command", lambda self: command)
        monkeypatch.setattr("smgproxy.simulated.launch.START_SECS", 0.3)
        with pytest.raises(SimulatedWorkersError, match="did not listen within"):
            await workers.start()

    play(scenario)


def run_command(*argv: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "smgproxy.simulated", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_command_ends_when_its_stdin_does() -> None:
    with run_command() as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline().startswith('{"urls":["http://127.0.0.1:')
        child.stdin.close()
        assert child.wait(10) == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_command_ends_well_on_a_signal(signum: signal.Signals) -> None:
    with run_command() as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signum)
        assert child.wait(10) == 0


def test_taken_port_is_one_line_and_exit_1() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with run_command(f"--port={taken.getsockname()[1]}") as child:
            _, errors = child.communicate(timeout=10)
    assert child.returncode == 1
    assert errors.startswith("simulated workers cannot listen: ")
    assert errors.count("\n") == 1


def test_command_line_becomes_options() -> None:
    line = "--port 4000 --count 2 --model m --ttft-ms 1.5 --tokens-per-second 9"
    options, port = parse(line.split())
    assert port == 4000
    assert options == SimulatedOptions(2, "m", 1.5, 9.0)


@pytest.mark.parametrize(
    "line",
    ["--count 0", "--ttft-ms -1", "--port 65536", "--port 65535 --count 2", "--what"],
)
def test_bad_command_line_is_a_usage_error(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(line.split())
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err
