"""The load tools: C where there is a compiler, Python where there is none."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "tools"
BUFFERED_CONNS = 64


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Command lines of the simulated worker and of the load generators."""

    upstream: tuple[str, ...]
    streams: tuple[str, ...]
    wrk: str | None
    compiler: str | None

    def buffered(self, port: int, seconds: float) -> list[str]:
        """A closed loop of chat requests on a fixed number of connections."""
        conns = str(BUFFERED_CONNS)
        if self.wrk is None:
            tool = _python_tool("buffered")
            return [*tool, str(port), "--conns", conns, "--seconds", str(seconds)]
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        script = str(SOURCES / "chat.lua")
        # wrk takes whole seconds only.
        length = f"{max(1, round(seconds))}s"
        return [self.wrk, "-t1", f"-c{conns}", f"-d{length}", "-s", script, url]

    def python_tool(self, name: str) -> tuple[str, ...]:
        """The start of the command line of a tool that there is in Python only."""
        return _python_tool(name)

    def lines(self) -> Iterable[tuple[str, str]]:
        """What is in use, for the report."""
        kind = f"C, {self.compiler}" if self.compiler else "Python, no C compiler"
        yield "Simulated worker, stream client", kind
        yield "Buffered load", "wrk" if self.wrk else "Python, no wrk"


def _python_tool(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"loadtest.tools.{name}")


def _compile(compiler: str, name: str, folder: Path) -> tuple[str, ...]:
    program = folder / name
    subprocess.run(
        [compiler, "-O2", "-o", str(program), str(SOURCES / f"{name}.c")],
        check=True,
        timeout=60,
    )
    return (str(program),)


def prepare(folder: Path, is_python_only: bool) -> Toolbox:
    """Build the tools into `folder`, or name their Python equivalents."""
    compiler = None if is_python_only else shutil.which("cc")
    wrk = None if is_python_only else shutil.which("wrk")
    if compiler is None:
        return Toolbox(_python_tool("upstream"), _python_tool("streams"), wrk, None)
    folder.mkdir(parents=True, exist_ok=True)
    return Toolbox(
        _compile(compiler, "upstream", folder),
        _compile(compiler, "streams", folder),
        wrk,
        compiler,
    )
