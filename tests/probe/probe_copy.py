"""Copies the probe to a place without the rest of cockpit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pynvml

import cockpit.probe


def copy_probe(folder: Path) -> Path:
    """A folder for sys.path: the package `probe`, with pynvml beside it."""
    source = Path(cockpit.probe.__file__).parent
    shutil.copytree(source, folder / "probe", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(pynvml.__file__, folder)
    return folder
