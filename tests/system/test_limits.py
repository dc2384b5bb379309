"""The limit on open files, in a child so that the test run keeps its own."""

import resource
import subprocess
import sys

import pytest

from smgproxy.system import limits

CHILD = """
import resource
from smgproxy.system.limits import raise_open_files_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
print(raise_open_files_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_soft_limit_is_lifted_to_the_hard_limit() -> None:
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.stdout.split() == ["128", "128", "128"], done.stderr


def test_forbidden_call_leaves_the_limit_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert limits.raise_open_files_limit() == 1024


def test_nothing_is_asked_when_the_limit_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096, 4096))
    monkeypatch.delattr(resource, "setrlimit")
    assert limits.raise_open_files_limit() == 4096
