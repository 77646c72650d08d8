"""Recognizes a shell script that was given in place of a preset, and explains what to do with it."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.config.document import InputError, read_text

_SBATCH: Final = r"(?m)^#SBATCH\b"


def find_script(path: Path) -> str | None:
    """Return the text of the script at this path, or `None`."""
    with suppress(OSError, InputError, ValueError):
        text = read_text(path)
        return text if is_script(text) else None
    return None


def is_script(text: str) -> bool:
    """Return whether the text begins with `#!`, as sbatch requires of every script."""
    return text.startswith("#!")


def explain_script(written: str, text: str) -> str:
    """Say that the file is no preset, and what to do with it."""
    path = shlex.quote(written)
    asks = f"`cockpit check -- bash {path}` says what it asks for"
    if re.search(_SBATCH, text):
        then = f"submit it with `sbatch {path}`, then run cockpit within its job or with --slurm JOBID"
        return f"{written}: a script for sbatch, not a preset: {then}; {asks}"
    return f"{written}: a script, not a preset: {asks}, and a preset with `entrypoint: bash {path}` launches it"
