"""The programs that are measured: where each is found and how it is started.

None of them has to be there: one that is not installed is reported so.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template

CONFIGS = Path(__file__).resolve().parent / "configs"
NAMES = ("direct", "ours", "smg", "vllm-router", "nginx", "haproxy")
NOT_INSTALLED = "not installed"
# What is measured unless said otherwise, and the default of ours and of the original.
ROUND_ROBIN, CACHE_AWARE = "round_robin", "cache_aware"
GATEWAY_SETTING = f"--policy {ROUND_ROBIN}"


@dataclass(frozen=True, slots=True)
class Place:
    """The ports and the folder that one start of a program is given.

    Only ours and the two routers take more than one worker, or another policy.
    """

    port: int
    metrics_port: int
    worker_ports: tuple[int, ...]
    folder: Path
    policy: str = ROUND_ROBIN


@dataclass(frozen=True, slots=True)
class Program:
    """Something between a client and the worker; `command` is None for direct."""

    name: str
    version: str
    command: Callable[[Place], list[str]] | None
    ready_path: str
    setting: str

    @property
    def rank(self) -> int:
        """Its place in the table, which also gives its ports."""
        return NAMES.index(self.name)


def _output(*argv: str) -> str:
    """What a command prints when asked for a version; empty when it cannot."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).strip()


def _number(text: str) -> str:
    found = re.search(r"\d+\.\d+[\w.+-]*", text)
    return found.group() if found else "unknown version"


def _gateway_flags(place: Place, log_level: str) -> list[str]:
    """The flags that ours and the two routers have in common."""
    return [
        "--worker-urls",
        *(f"http://127.0.0.1:{port}" for port in place.worker_ports),
        "--policy",
        place.policy,
        "--host",
        "127.0.0.1",
        "--port",
        str(place.port),
        "--prometheus-port",
        str(place.metrics_port),
        "--log-level",
        log_level,
    ]


def _find_ours(root: Path) -> Program | None:
    if importlib.util.find_spec("smgproxy") is None:
        return None

    def command(place: Place) -> list[str]:
        launch = [sys.executable, "-m", "smgproxy", "launch"]
        return [*launch, *_gateway_flags(place, "warn")]

    commit = _output("git", "-C", str(root), "describe", "--always", "--dirty")
    version = commit if re.fullmatch(r"[\w.-]+", commit) else "this tree"
    return Program("ours", version, command, "/readiness", GATEWAY_SETTING)


def _in_venv(root: Path, name: str, variable: str) -> Path | None:
    """A program in the venv that `variable` names, or in the one of --install.

    Not from PATH: our own package installs a command `smg` as well.
    """
    for venv in (os.environ.get(variable, ""), str(root / ".bench" / name)):
        path = Path(venv) / "bin" / name
        if venv and path.exists():
            return path.absolute()
    return None


def _venv_version(path: Path, package: str) -> str:
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    return _number(_output(str(path.parent / "python"), "-c", ask))


def _find_smg(root: Path) -> Program | None:
    path = _in_venv(root, "smg", "SMG_VENV")
    if path is None:
        return None

    def command(place: Place) -> list[str]:
        return [str(path), "launch", *_gateway_flags(place, "warn")]

    version = _venv_version(path, "smg")
    return Program("smg", version, command, "/readiness", GATEWAY_SETTING)


def _find_vllm_router(root: Path) -> Program | None:
    path = _in_venv(root, "vllm-router", "VLLM_ROUTER_VENV")
    if path is None:
        return None

    def command(place: Place) -> list[str]:
        return [str(path), *_gateway_flags(place, "error")]

    version = _venv_version(path, "vllm-router")
    return Program("vllm-router", version, command, "/readiness", GATEWAY_SETTING)


def _configured(place: Place, name: str) -> str:
    """The program's template, filled in, as a file."""
    text = Template((CONFIGS / name).read_text()).substitute(
        folder=place.folder, port=place.port, worker_port=place.worker_ports[0]
    )
    path = place.folder / name
    path.write_text(text)
    return str(path)


def _system_command(name: str) -> str | None:
    """A command from PATH or from where daemons live, which PATH may lack."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def _find_nginx(root: Path) -> Program | None:
    path = _system_command("nginx")
    if path is None:
        return None

    def command(place: Place) -> list[str]:
        return [path, "-c", _configured(place, "nginx.conf")]

    version = _number(_output(path, "-v"))
    return Program("nginx", version, command, "/health", "one worker, buffering off")


def _find_haproxy(root: Path) -> Program | None:
    path = _system_command("haproxy")
    if path is None:
        return None

    def command(place: Place) -> list[str]:
        return [path, "-db", "-f", _configured(place, "haproxy.cfg")]

    version = _number(_output(path, "-v"))
    return Program("haproxy", version, command, "/health", "one thread, no delay")


def _find_direct(root: Path) -> Program | None:
    return Program("direct", "-", None, "/health", "no proxy: the base line")


_FINDERS: dict[str, Callable[[Path], Program | None]] = {
    "direct": _find_direct,
    "ours": _find_ours,
    "smg": _find_smg,
    "vllm-router": _find_vllm_router,
    "nginx": _find_nginx,
    "haproxy": _find_haproxy,
}


def find(name: str, root: Path) -> Program | None:
    """The program as installed on this machine; None when it is not."""
    return _FINDERS[name](root)
