"""The command line as a person meets it: what is printed, and the exit status."""

import os
import subprocess
import sys
import types
from collections.abc import MutableMapping
from pathlib import Path

import pytest

from smgproxy import __version__
from smgproxy.cli import main
from smgproxy.flags_unsupported import UNSUPPORTED_FLAGS
from smgproxy.settings import Settings, declared_flags

ROOT = Path(__file__).resolve().parents[1]
# Every flag and alias of the contract, --help aside.
CONTRACT_FLAGS = (ROOT / "tests" / "contract_flags.txt").read_text().split()
DECLARED = {name for one in declared_flags() for name in one.spellings}
UNSUPPORTED = {name for names in UNSUPPORTED_FLAGS.values() for name in names}

COMMANDS = "available: launch, flags, openapi (see smg --help)"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUST_LOG", raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of each gateway that was to run; none does."""
    settings: list[Settings] = []

    def run(given: Settings, environ: MutableMapping[str, str]) -> int:
        assert environ is os.environ
        settings.append(given)
        return 0

    module = types.ModuleType("smgproxy.run")
    vars(module)["run"] = run
    monkeypatch.setitem(sys.modules, "smgproxy.run", module)
    return settings


def launched(started: list[Settings], *words: str) -> Settings:
    assert main(["launch", *words]) == 0
    return started.pop()


def refused(capsys: Capture, *words: str) -> tuple[int, str]:
    """Exit status and the one line on stderr of a launch that does not happen."""
    status = main(["launch", *words])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("smg launch: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return status, err.removeprefix("smg launch: ").removesuffix("\n")


# What is accepted


def test_launch_without_flags_runs_the_defaults(started: list[Settings]) -> None:
    assert launched(started) == Settings()


def test_value_after_the_flag_and_after_an_equals_sign(started: list[Settings]) -> None:
    assert launched(started, "--port", "35001").server.port == 35001
    assert launched(started, "--port=35001").server.port == 35001


def test_only_the_first_equals_sign_parts(started: list[Settings]) -> None:
    settings = launched(started, "--health-check-endpoint=/a=b")
    assert settings.fleet.health_check_endpoint == "/a=b"


def test_last_one_of_a_repeated_flag_counts(started: list[Settings]) -> None:
    settings = launched(started, "--port", "35001", "--port=35002")
    assert settings.server.port == 35002


def test_list_takes_several_values_and_repetition(started: list[Settings]) -> None:
    words = ["--worker-urls", "http://a:1", "http://b:2", "--port", "35001"]
    settings = launched(started, *words, "--worker-urls=http://c:3")
    assert settings.server.worker_urls == ("http://a:1", "http://b:2", "http://c:3")
    assert settings.server.port == 35001


def test_list_of_numbers(started: list[Settings]) -> None:
    settings = launched(started, "--prometheus-duration-buckets", "0.5", "1", "2e1")
    assert settings.telemetry.prometheus_duration_buckets == (0.5, 1.0, 20.0)


def test_number_with_a_fraction(started: list[Settings]) -> None:
    words = ["--simulated-workers", "1", "--simulated-ttft-ms", ".5"]
    simulated = launched(started, *words).simulated
    assert simulated is not None
    assert simulated.ttft_ms == 0.5


def test_switch_stands_alone(started: list[Settings]) -> None:
    settings = launched(started, "--reuse-port", "--port", "35001")
    assert settings.server.reuse_port
    assert settings.server.port == 35001


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("--remove-unhealthy-workers", True),
        ("--worker-auto-recovery", True),
        ("--no-remove-unhealthy-workers", False),
        ("--no-worker-auto-recovery", False),
    ],
)
def test_switch_of_three_states(
    started: list[Settings], name: str, value: bool
) -> None:
    assert launched(started, name).fleet.remove_unhealthy_workers is value
    assert launched(started).fleet.remove_unhealthy_workers is None


def test_negative_number_is_a_value(capsys: Capture) -> None:
    assert refused(capsys, "--shutdown-grace-period-secs", "-1") == (
        1,
        "--shutdown-grace-period-secs: must be at least 0, got -1",
    )


def test_exit_status_of_the_gateway_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["smgproxy.run"], "run", lambda *_: 130)
    assert main(["launch"]) == 130


def test_arguments_of_the_program_are_the_default(
    monkeypatch: pytest.MonkeyPatch, started: list[Settings]
) -> None:
    monkeypatch.setattr(sys, "argv", ["smg", "launch", "--port", "35001"])
    assert main() == 0
    assert started.pop().server.port == 35001


# Wrong values: exit status 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--port", "0"], "--port: must be between 1 and 65535, got 0"),
        (["--port=65536"], "--port: must be between 1 and 65535, got 65536"),
        (["--port", "x"], "--port: must be a whole number, got x"),
        (["--port", "1.5"], "--port: must be a whole number, got 1.5"),
        (["--port="], "--port: must be a whole number, got ''"),
        (["--port", "1_0"], "--port: must be a whole number, got 1_0"),
        (["--port", " 1"], "--port: must be a whole number, got ' 1'"),
        (["--port", "\u0661"], "--port: must be a whole number, got '\\u0661'"),
        (["--port", "9" * 19], f"--port: must be a whole number, got {'9' * 19}"),
        (
            ["--max-payload-size", "0"],
            "--max-payload-size: must be at least 1, got 0",
        ),
        (
            ["--simulated-ttft-ms", "nan"],
            "--simulated-ttft-ms: must be a number, got nan",
        ),
        (
            ["--simulated-ttft-ms", "1e999"],
            "--simulated-ttft-ms: must be a number, got 1e999",
        ),
        (
            ["--simulated-ttft-ms=-0.5"],
            "--simulated-ttft-ms: must be at least 0, got -0.5",
        ),
        (
            ["--simulated-workers", "65"],
            "--simulated-workers: must be between 0 and 64, got 65",
        ),
        (
            ["--policy", "fastest"],
            "--policy: must be one of cache_aware, consistent_hashing, least_load, "
            "manual, passthrough, power_of_two, prefix_hash, random, round_robin, "
            "got fastest",
        ),
        (
            ["--simulated-model", "a\nb"],
            "--simulated-model: must be printable text, got 'a\\nb'",
        ),
        (
            ["--host", "localhost"],
            "--host: must be an IP address such as 0.0.0.0, 127.0.0.1 or ::, "
            "got localhost",
        ),
        (
            ["--worker-urls", "http://a:1", "HTTP://b:1"],
            "--worker-urls: must start with http:// or https:// in lower case, such as "
            "http://127.0.0.1:8000, got HTTP://b:1",
        ),
        (
            ["--health-check-port", "30000"],
            "--health-check-port: must differ from --port, both are 30000; each "
            "listener needs a port of its own",
        ),
        (
            ["--simulated-model", "m"],
            "--simulated-model: has no effect without --simulated-workers N",
        ),
    ],
)
def test_wrong_value_is_one_line_and_exit_1(
    capsys: Capture, started: list[Settings], words: list[str], line: str
) -> None:
    assert refused(capsys, *words) == (1, line)
    assert not started


# Usage errors: exit status 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--port"],
            "--port: needs a value; one that begins with '-' is given as --port=VALUE",
        ),
        (
            ["--port", "--reuse-port"],
            "--port: needs a value; one that begins with '-' is given as --port=VALUE",
        ),
        (
            ["--worker-urls"],
            "--worker-urls: needs a value; one that begins with '-' is given as "
            "--worker-urls=VALUE",
        ),
        (["--reuse-port=1"], "--reuse-port: takes no value; write --reuse-port alone"),
        (["8080"], "unexpected argument 8080; every value follows a --flag"),
        (["--reuse-port", "a b"], "unexpected argument 'a b'; every value follows a "),
        (["--"], "unknown flag --; smg launch --help lists the flags"),
        (["-p", "1"], "unknown flag -p; smg launch --help lists the flags"),
        (["--prot", "1"], "unknown flag --prot; did you mean --port?"),
        (["--worker-url=x"], "unknown flag --worker-url; did you mean --worker-urls?"),
        (["--kv-indx"], "unknown flag --kv-indx; did you mean --kv-index?"),
        (["--x\ny"], "unknown flag '--x\\ny'; smg launch --help lists the flags"),
    ],
)
def test_usage_error_is_one_line_and_exit_2(
    capsys: Capture, started: list[Settings], words: list[str], line: str
) -> None:
    status, text = refused(capsys, *words)
    assert status == 2
    assert text.startswith(line)
    assert not started


def test_names_cannot_be_shortened(capsys: Capture) -> None:
    # --worker-startup-delay is the only flag that begins like this.
    status, text = refused(capsys, "--worker-startup-d", "1")
    assert status == 2
    assert text == (
        "unknown flag --worker-startup-d; did you mean --worker-startup-delay?"
    )


def test_flag_that_the_contract_removed_is_unknown(capsys: Capture) -> None:
    status, text = refused(capsys, "--stream-request-bodies-over", "1")
    assert status == 2
    assert text.startswith("unknown flag --stream-request-bodies-over;")


@pytest.mark.parametrize("name", CONTRACT_FLAGS)
def test_flag_of_the_contract_is_built_or_refused_by_name(
    capsys: Capture, name: str
) -> None:
    assert (name in DECLARED) != (name in UNSUPPORTED)
    if name in UNSUPPORTED:
        line = (
            f"{name} is not supported yet by smgproxy {__version__}; leave it out "
            "(smg flags lists what is supported)"
        )
        assert refused(capsys, name, "1") == (2, line)
        assert refused(capsys, f"{name}=1") == (2, line)


def test_only_flags_of_the_contract_are_promised() -> None:
    assert set(CONTRACT_FLAGS) >= UNSUPPORTED


def test_grpc_worker_is_not_supported_yet(capsys: Capture) -> None:
    assert refused(capsys, "--worker-urls", "grpc://a:1") == (
        2,
        "--worker-urls: grpc:// workers are not supported yet by smgproxy "
        f"{__version__}; available: http://, https://",
    )


# The environment


@pytest.mark.parametrize("level", ["debug", "INFO", "warn", "error", "off"])
def test_rust_log_replaces_the_log_level(
    monkeypatch: pytest.MonkeyPatch, started: list[Settings], level: str
) -> None:
    monkeypatch.setenv("RUST_LOG", level)
    settings = launched(started, "--log-level", "error")
    assert settings.telemetry.log_level == level.lower()
    assert settings.notices == ()


def test_rust_log_that_is_a_filter_is_ignored_with_a_notice(
    monkeypatch: pytest.MonkeyPatch, started: list[Settings]
) -> None:
    monkeypatch.setenv("RUST_LOG", "smg=debug,info")
    settings = launched(started, "--log-level", "error")
    assert settings.telemetry.log_level == "error"
    assert settings.notices == (
        "RUST_LOG is ignored: it must be one of debug, info, warn, error, off, "
        "not a filter",
    )


def test_empty_rust_log_is_no_rust_log(
    monkeypatch: pytest.MonkeyPatch, started: list[Settings]
) -> None:
    monkeypatch.setenv("RUST_LOG", "")
    assert launched(started) == Settings()


# Commands


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"smgproxy {__version__}\n"


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_names_every_command(capsys: Capture, word: str) -> None:
    assert main([word]) == 0
    out = capsys.readouterr().out
    assert "  launch " in out
    assert "  flags " in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], f"smg: a command is missing; {COMMANDS}\n"),
        (["lunch"], f"smg: unknown command 'lunch'; {COMMANDS}\n"),
        (["flags", "x"], "smg flags: takes --markdown and nothing else\n"),
    ],
)
def test_command_that_is_not_understood(
    capsys: Capture, words: list[str], line: str
) -> None:
    assert main(words) == 2
    assert capsys.readouterr() == ("", line)


def test_reader_that_leaves_early_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "smgproxy", "launch", "--help"],
            cwd=ROOT,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
