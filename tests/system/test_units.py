"""The unit files, as systemd itself reads them."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "systemd"
SERVICES = ["smgproxy.service", "smgproxy@.service"]
PROGRAM = "/opt/smgproxy/bin/smg"

needs_systemd_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed",
)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *arguments]
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=50,
    )


def settings_of(unit: str) -> dict[str, list[str]]:
    """Every assignment of a unit file; a name may come more than once."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / unit).read_text().splitlines():
        name, is_assignment, value = line.partition("=")
        if is_assignment and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@needs_systemd_analyze
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    # The program is not installed here; one that exists stands in for it.
    for unit in UNITS.iterdir():
        text = unit.read_text().replace(PROGRAM, "/bin/sh")
        (tmp_path / unit.name).write_text(text)
    copies = [str(tmp_path / each) for each in [*SERVICES, "smgproxy.socket"]]
    done = analyze("verify", "--recursive-errors=no", "--man=no", *copies)
    assert (done.returncode, done.stdout) == (0, "")


@needs_systemd_analyze
@pytest.mark.parametrize("unit", SERVICES)
def test_exposure_is_at_most_2_5(unit: str) -> None:
    path = str(UNITS / unit)
    done = analyze("security", "--offline=true", "--threshold=25", path)
    assert done.returncode == 0, done.stdout


def test_template_is_the_service_but_for_its_ports() -> None:
    single, template = (settings_of(each) for each in SERVICES)
    differing = {name for name in single if single[name] != template.get(name)}
    assert single.keys() == template.keys()
    assert differing == {"Description", "ExecStart"}
    [start] = template["ExecStart"]
    assert start == f"{single['ExecStart'][0]} --reuse-port --prometheus-port %i"


@pytest.mark.parametrize("unit", SERVICES)
def test_systemd_waits_longer_than_the_drain(unit: str) -> None:
    default_grace_secs = 180
    [wait] = settings_of(unit)["TimeoutStopSec"]
    assert int(wait) > default_grace_secs


@pytest.mark.parametrize("unit", SERVICES)
def test_a_start_that_fails_for_ever_is_given_up_and_a_rare_crash_is_not(
    unit: str,
) -> None:
    settings = settings_of(unit)
    interval, burst, pause = (
        int(settings[name][0])
        for name in ("StartLimitIntervalSec", "StartLimitBurst", "RestartSec")
    )
    failing_start_secs = 2
    assert 60 <= burst * pause
    assert burst * (pause + failing_start_secs) < interval
    # Not by its status: 1 is a bad setting and a crash alike.
    assert settings["RestartPreventExitStatus"] == ["2"]


@pytest.mark.parametrize("unit", SERVICES)
def test_installed_files_are_those_of_the_guide(unit: str) -> None:
    guide = (ROOT / "docs" / "install-systemd.md").read_text()
    [environment] = settings_of(unit)["EnvironmentFile"]
    assert environment in guide
    assert PROGRAM.removesuffix("/bin/smg") in guide
