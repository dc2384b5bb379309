"""Finding the programs that are measured, and starting them alike."""

from pathlib import Path

import pytest

from loadtest.programs import Place, find

PLACE = Place(32010, 32011, (32000,), Path("/nowhere"))


def test_direct_is_always_there_and_has_nothing_to_start(tmp_path: Path) -> None:
    direct = find("direct", tmp_path)
    assert direct is not None and direct.command is None


@pytest.mark.parametrize("name", ["smg", "vllm-router"])
def test_a_program_without_its_venv_is_not_installed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SMG_VENV", raising=False)
    monkeypatch.delenv("VLLM_ROUTER_VENV", raising=False)
    assert find(name, tmp_path) is None


def test_the_original_is_taken_from_the_venv_that_the_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = tmp_path / "elsewhere"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "smg").touch()
    monkeypatch.setenv("SMG_VENV", str(venv))
    smg = find("smg", tmp_path)
    assert smg is not None and smg.command is not None
    argv = smg.command(PLACE)
    assert argv[:2] == [str(venv / "bin" / "smg"), "launch"]
    assert argv[argv.index("--worker-urls") + 1] == "http://127.0.0.1:32000"
    assert argv[argv.index("--policy") + 1] == "round_robin"


def test_a_gateway_may_have_a_fleet_and_another_policy(tmp_path: Path) -> None:
    ours = find("ours", tmp_path)
    assert ours is not None and ours.command is not None
    argv = ours.command(Place(32010, 32011, (32000, 32001), tmp_path, "random"))
    first = argv.index("--worker-urls") + 1
    assert argv[first + 1] == "http://127.0.0.1:32001"
    assert argv[argv.index("--policy") + 1] == "random"


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_a_configuration_is_filled_in_with_this_start(
    name: str, tmp_path: Path
) -> None:
    program = find(name, tmp_path)
    if program is None or program.command is None:
        pytest.skip(f"{name} is not installed")
    path = Path(program.command(Place(32010, 32011, (32000,), tmp_path))[-1])
    text = path.read_text()
    assert path.parent == tmp_path
    assert "127.0.0.1:32010" in text and "127.0.0.1:32000" in text
