"""A gateway whose admission is set wrongly does not start, and says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from smgproxy.cli import main
from tests.e2e.conftest import SIMULATED
from tests.e2e.process import RunningGateway

FLAGS = [
    (
        ("--queue-timeout-secs", "0"),
        "--queue-timeout-secs: must be above 0 while --queue-size is above 0; give a "
        "longest wait, or --queue-size 0 to let nobody wait",
    ),
    (("--queue-size=-1",), "--queue-size: must be at least 0, got -1"),
    (
        ("--rate-limit-tokens-per-second=-1",),
        "--rate-limit-tokens-per-second: must be at least 0, got -1",
    ),
    (
        ("--priority-scheduler-default-max-class", "urgent"),
        "--priority-scheduler-default-max-class: must be one of system, interactive, "
        "default, bulk, got 'urgent'",
    ),
    (
        ("--priority-scheduler-config", "/nowhere.yaml"),
        "--priority-scheduler-config: /nowhere.yaml: cannot be read: No such file or "
        "directory; give the path of a readable YAML file",
    ),
]
ROW = (
    "reserved_floor: 0, queue_size: 1, queue_timeout_secs: 1, "
    "starvation_threshold_secs: 1, can_preempt: false"
)
FILES = [
    ("classes: [", ":1: not valid YAML: "),
    (
        "classes:\n  urgent: {}",
        ":2: classes.urgent: unknown class; use bulk, default, interactive or system",
    ),
    (
        "classes:\n  bulk: {queue_size: 1}",
        ":2: classes.bulk: reserved_floor is missing",
    ),
    (
        f"classes:\n  bulk: {{{ROW.replace('queue_size: 1', 'queue_size: -1')}}}",
        ":2: classes.bulk.queue_size: must be a whole number, 0 or more, not -1",
    ),
    (
        "tenant_policies:\n  auth:a:\n    max_class: top",
        ":3: tenant_policies.auth:a.max_class: must be bulk, default, interactive or "
        "system, not top",
    ),
]


@pytest.mark.parametrize(("words", "told"), FLAGS)
def test_a_wrong_flag_is_one_line_and_status_1(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", *words]) == 1
    assert capsys.readouterr() == ("", f"smg launch: {told}\n")


@pytest.mark.parametrize(("text", "told"), FILES)
def test_a_fault_of_the_classes_file_is_told_with_its_line(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "classes.yaml"
    path.write_text(text)
    # Whether or not the scheduler is asked for.
    assert main(["launch", "--priority-scheduler-config", str(path)]) == 1
    out, err = capsys.readouterr()
    lead = f"smg launch: --priority-scheduler-config: {path}{told}"
    assert (out, err.count("\n")) == ("", 1) and err.startswith(lead)


def test_a_queue_of_0_needs_no_timeout(tmp_path: Path) -> None:
    flags = ("--queue-size", "0", "--queue-timeout-secs", "0")
    with RunningGateway(tmp_path, *SIMULATED, *flags) as running:
        running.wait_until()
        assert running.stop() == 0


def test_reservations_above_the_capacity_are_logged_and_the_limit_serves(
    tmp_path: Path,
) -> None:
    flags = ("--priority-scheduler-enabled", "--max-concurrent-requests", "4")
    with RunningGateway(tmp_path, *SIMULATED, *flags) as running:
        running.wait_until()
        assert running.chat().status_code == 200
        page = running.ask("GET", running.metrics_url).text
        assert 'smg_http_rate_limit_total{result="allowed"} 1.0\n' in page
        assert "smg_scheduler" not in page
        assert (
            "priority scheduler failed to start; falling back to "
            "--max-concurrent-requests: sum of class reservations (9) exceeds "
            "capacity (4)"
        ) in running.err
        assert running.stop() == 0
