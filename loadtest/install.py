"""Fetches the programs that pip can get, each into a venv of its own."""

import subprocess
import sys
import venv
from pathlib import Path

PACKAGES = {"smg": "smg==1.13.0", "vllm-router": "vllm-router"}
INSTALL_SECS = 600


def install_missing(root: Path) -> None:
    """Make the venvs that are not there yet; what cannot be had is only told."""
    for name, requirement in PACKAGES.items():
        folder = root / ".bench" / name
        if (folder / "bin" / name).exists():
            continue
        print(f"installing {requirement} into {folder.relative_to(root)}", flush=True)
        try:
            _install(folder, requirement)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"  cannot be installed: {error}", file=sys.stderr)


def _install(folder: Path, requirement: str) -> None:
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, requirement], check=True, timeout=INSTALL_SECS)
