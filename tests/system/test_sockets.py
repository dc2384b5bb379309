"""Sockets handed over at start: real descriptors, in a child of our making."""

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from smgproxy.system.sockets import PassedSocketError, listen_fds

ROOT = Path(__file__).resolve().parents[2]

# Lays the descriptors it was given from 3 on, then asks for them as a service
# would. LISTEN_PID can only be known in the child, so it is set here.
CHILD = """
import json, os, sys
for at, fd in enumerate(json.loads(sys.argv[1]), start=3):
    os.dup2(fd, at)
environ = dict(json.loads(sys.argv[2]), LISTEN_PID=str(os.getpid()))
from smgproxy.system.sockets import PassedSocketError, listen_fds
try:
    passed = listen_fds(environ)
except PassedSocketError as error:
    print(json.dumps({"refused": str(error)}))
    sys.exit()
print(json.dumps({
    "names": [each.name for each in passed],
    "addresses": [each.sock.getsockname() for each in passed],
    "fds": [each.sock.fileno() for each in passed],
    "inheritable": [each.sock.get_inheritable() for each in passed],
    "timeouts": [each.sock.gettimeout() for each in passed],
    "environ": environ,
}))
"""

# Serves one connection with what systemd-socket-activate handed over.
SERVER = """
import os
from smgproxy.system.sockets import listen_fds
[passed] = listen_fds(os.environ)
left = [name for name in os.environ if name.startswith("LISTEN_")]
passed.sock.settimeout(20)
peer, _ = passed.sock.accept()
peer.sendall(f"{passed.name} {left}".encode())
peer.close()
"""


def ask(given: list[int], **environ: str) -> dict[str, object]:
    """Run the child with these descriptors; give what it found."""
    # Above the numbers they will be laid on, so that none is overwritten.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in given]
    command = [sys.executable, "-c", CHILD, json.dumps(high), json.dumps(environ)]
    try:
        done = subprocess.run(
            command, pass_fds=high, capture_output=True, timeout=20, cwd=ROOT
        )
    finally:
        for fd in high:
            os.close(fd)
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


@pytest.fixture
def listeners() -> Iterator[list[socket.socket]]:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    yield made
    for each in made:
        each.close()


def test_sockets_come_in_order_with_their_names(listeners: list[socket.socket]) -> None:
    fds = [each.fileno() for each in listeners]
    found = ask(fds, LISTEN_FDS="2", LISTEN_FDNAMES="http:metrics")
    assert found["names"] == ["http", "metrics"]
    assert found["fds"] == [3, 4]
    addresses = [list(each.getsockname()) for each in listeners]
    assert found["addresses"] == addresses


def test_sockets_are_ready_for_a_loop_and_closed_to_children(
    listeners: list[socket.socket],
) -> None:
    found = ask([listeners[0].fileno()], LISTEN_FDS="1")
    assert found["timeouts"] == [0.0]
    assert found["inheritable"] == [False]


def test_variables_are_removed(listeners: list[socket.socket]) -> None:
    given = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "http", "LANG": "C"}
    assert ask([listeners[0].fileno()], **given)["environ"] == {"LANG": "C"}


def test_socket_without_a_name_is_called_unknown(
    listeners: list[socket.socket],
) -> None:
    assert ask([listeners[0].fileno()], LISTEN_FDS="1")["names"] == ["unknown"]


def test_unix_socket_is_taken(tmp_path: Path) -> None:
    path = str(tmp_path / "http")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        assert ask([listener.fileno()], LISTEN_FDS="1")["addresses"] == [path]


def test_stream_socket_that_does_not_listen_is_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        refused = ask([bound.fileno()], LISTEN_FDS="1")["refused"]
    assert refused == (
        "passed descriptor 3 ('unknown') does not listen: use Accept=no"
    )


def test_datagram_socket_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        given = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "dns"}
        refused = ask([bound.fileno()], **given)["refused"]
    assert refused == (
        "passed descriptor 3 ('dns') is not a stream socket: use ListenStream="
    )


def test_socket_of_another_family_is_refused() -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as other:
        refused = ask([other.fileno()], LISTEN_FDS="1")["refused"]
    assert refused == (
        "passed descriptor 3 ('unknown') is neither an internet nor a UNIX socket"
    )


def test_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        refused = ask([file.fileno()], LISTEN_FDS="1")["refused"]
    assert refused == (
        "passed descriptor 3 ('unknown') is not a socket: "
        "Socket operation on non-socket"
    )


def test_closed_descriptor_is_refused(listeners: list[socket.socket]) -> None:
    refused = ask([listeners[0].fileno()], LISTEN_FDS="2")["refused"]
    assert refused == (
        "passed descriptor 4 ('unknown') is not a socket: Bad file descriptor"
    )


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"LISTEN_FDS": "two"}, "LISTEN_FDS is not a number"),
        ({"LISTEN_FDS": "-1"}, "LISTEN_FDS is not a number"),
        ({"LISTEN_FDS": "9" * 5000}, "LISTEN_FDS is not a number"),
        ({"LISTEN_FDS": "1025"}, "LISTEN_FDS is above 1024"),
        (
            {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "a:b"},
            "LISTEN_FDNAMES names 2 sockets, LISTEN_FDS says 1",
        ),
    ],
)
def test_nonsense_in_the_environment_is_refused(
    environ: dict[str, str], text: str
) -> None:
    environ["LISTEN_PID"] = str(os.getpid())
    with pytest.raises(PassedSocketError) as refused:
        listen_fds(environ)
    assert str(refused.value) == text
    assert environ == {}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1", "LISTEN_FDNAMES": "http"},
        {"LISTEN_PID": str(os.getpid())},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0", "LISTEN_FDNAMES": ""},
    ],
)
def test_no_sockets_were_meant_for_this_process(environ: dict[str, str]) -> None:
    assert listen_fds(environ) == []
    assert environ == {}


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None,
    reason="systemd-socket-activate is not installed",
)
def test_systemd_hands_over_a_socket_that_serves(tmp_path: Path) -> None:
    path = str(tmp_path / "http")
    activate = ["systemd-socket-activate", f"--listen={path}", "--fdname=http"]
    command = [*activate, sys.executable, "-c", SERVER]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as service:
        try:
            assert fetch(path) == b"http []"
            assert service.wait(20) == 0
        finally:
            service.kill()


def fetch(path: str) -> bytes:
    """Connect as soon as somebody listens; read to the end."""
    deadline = time.monotonic() + 20
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(20)
        while client.connect_ex(path) != 0:
            assert time.monotonic() < deadline, "nobody listens"
            time.sleep(0.01)
        return client.recv(1000)
