"""What is written about the flags."""

import sys
from pathlib import Path

import pytest

from smgproxy.cli import main
from smgproxy.flags_unsupported import UNSUPPORTED_FLAGS
from smgproxy.settings import declared_flags
from smgproxy.usage import flag_list, flags_page, launch_help

PAGE = Path(__file__).resolve().parents[1] / "docs" / "flags.md"


def entry(text: str, name: str) -> str:
    """The lines of one flag in the help, as one line."""
    _, found, rest = text.partition(f"\n  {name} ")
    assert found, name
    lines = rest.split("\n")
    count = next(i for i, line in enumerate(lines[1:], 1) if line[:10].strip())
    return " ".join(" ".join([name, *lines[:count]]).split())


@pytest.fixture
def text() -> str:
    return launch_help(declared_flags(), width=80)


def test_launch_help_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delitem(sys.modules, "smgproxy.gateway", raising=False)
    # Whatever else is on the line, wrong or right.
    assert main(["launch", "--port", "x", "--help"]) == 0
    assert capsys.readouterr() == (text, "")
    assert "smgproxy.gateway" not in sys.modules


@pytest.mark.parametrize(("columns", "width"), [("40", 80), ("90", 90), ("250", 100)])
def test_help_takes_80_to_100_columns(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["launch", "-h"]) == 0
    longest = max(map(len, capsys.readouterr().out.splitlines()))
    assert width - 8 < longest <= width


def test_every_flag_is_explained_with_its_default(text: str) -> None:
    flat = " ".join(text.split())
    for one in declared_flags():
        meaning = one.flag.help.partition(" (default: ")[0]
        assert f" {', '.join(one.spellings)} " in flat
        assert f" {meaning} (default: " in flat
    assert flat.count("(default: ") == len(declared_flags())


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("--port", "--port PORT port to listen on (default: 30000)"),
        (
            "--policy",
            "--policy POLICY how a worker is chosen among those that serve the model: "
            "cache_aware, consistent_hashing, least_load, manual, passthrough, "
            "power_of_two, prefix_hash, random, round_robin (default: cache_aware)",
        ),
        (
            "--request-id-headers",
            "--request-id-headers TEXT ... headers read for the request id, in this "
            "order (default: x-request-id x-correlation-id x-trace-id request-id)",
        ),
        (
            "--simulated-ttft-ms",
            "--simulated-ttft-ms MS milliseconds to the first token of an answer "
            "(default: 50)",
        ),
    ],
)
def test_entry_of_a_flag(text: str, name: str, written: str) -> None:
    assert entry(text, name) == written


def test_switch_is_on_or_off_and_no_value_may_be_unset(text: str) -> None:
    assert entry(text, "--reuse-port").endswith("(default: off)")
    assert entry(text, "--health-check-port").endswith("(default: unset)")
    assert entry(text, "--worker-urls").endswith("(default: none)")


def test_groups_come_in_the_order_of_the_contract(text: str) -> None:
    names = [
        *("General", "Worker Configuration", "Simulated Workers", "Routing Policy"),
        *("Logging", "Prometheus Metrics", "Request Handling", "Health Checks"),
    ]
    lines = text.splitlines()
    found = [line[:-1] for line in lines if line.endswith(":") and line[0] != " "]
    assert [name for name in found if name in names] == names
    assert len(found) == len(set(found))


def test_help_says_that_more_is_to_come(text: str) -> None:
    count = sum(map(len, UNSUPPORTED_FLAGS.values()))
    assert f"{count} more flags of the SMG contract are not supported yet." in text


def test_flags_lists_what_is_there_and_what_is_to_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["flags"]) == 0
    out = capsys.readouterr().out
    assert out == flag_list(declared_flags())
    built, _, planned = out.partition("Not supported yet:\n")
    assert "  --port PORT  (default: 30000)\n" in built
    assert "  --reuse-port  (default: off)\n" in built
    assert "  --kv-index\n" in planned


def test_flags_has_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags", "--help"]) == 0
    assert "  flags [--markdown] " in capsys.readouterr().out


def test_page_in_docs_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags", "--markdown"]) == 0
    page = capsys.readouterr().out
    remedy = "run: python -m smgproxy flags --markdown > docs/flags.md"
    assert page == PAGE.read_text(), remedy


def test_page_is_a_table_for_each_group() -> None:
    page = flags_page(declared_flags())
    head = "| Flag | Default | Meaning |\n|---|---|---|\n"
    assert f"\n## Routing Policy\n\n{head}" in page
    assert "\n| `--port` `PORT` | 30000 | port to listen on |\n" in page
    assert "\n- Service Discovery (Kubernetes): `--" in page
