"""The facts about the machine that a reader needs beside the figures."""

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path

from loadtest.procfs import parse_kib
from loadtest.stage import Cores, Stage


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _uvloop_version() -> str:
    try:
        return importlib.metadata.version("uvloop")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _core_list(cores: Cores | None) -> str:
    return ",".join(map(str, sorted(cores))) if cores else "any"


def facts(stage: Stage) -> Iterable[tuple[str, str]]:
    """Name and value of each fact, as of now."""
    memory_kib = parse_kib(Path("/proc/meminfo").read_text(), "MemTotal")
    yield "Date", datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    yield "CPU", f"{_cpu_model()}, {os.cpu_count()} cores"
    yield "Memory", f"{memory_kib / 1024 / 1024:.1f} GiB"
    yield "Kernel", platform.release()
    yield "Python", f"{platform.python_version()}, uvloop {_uvloop_version()}"
    yield "Load average before the run", f"{os.getloadavg()[0]:.2f}"
    yield "Core of the program measured", _core_list(stage.proxy_cores)
    yield "Cores of worker and clients", _core_list(stage.tool_cores)
    yield from stage.toolbox.lines()
