"""Which Pythons are installed on this machine, on PATH and by pyenv."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def find_python(version: str) -> str | None:
    """An interpreter of that version (`3.8`); pyenv's first, since those on PATH may be pyenv's shims."""
    by_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(by_pyenv[0]) if by_pyenv else shutil.which(f"python{version}")


def python_or_skip(version: str) -> str:
    """An interpreter of that version; the test is skipped where there is none."""
    found = find_python(version)
    if found is None:
        pytest.skip(f"THERE IS NO PYTHON {version} HERE: the payload was not tried on it")
    return found


def installed_pythons() -> list[str]:
    """One interpreter of every version from 3.8 on."""
    names = [f"python3.{minor}" for minor in range(8, 15)]
    found = [path for name in names for path in [shutil.which(name)] if path]
    found += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))]
    return list({version_of(path): path for path in found if version_of(path) >= (3, 8)}.values())


def version_of(python: str) -> tuple[int, int]:
    """Major and minor version as that interpreter says them; (0, 0): it does not run."""
    asked = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False)
    major, minor = (asked.stdout.split() or ["0", "0"])[:2]
    return int(major), int(minor)
