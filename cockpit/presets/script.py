"""A shell script that was named in place of a preset, and what to do with it."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.config.document import InputError, read_text

_SBATCH: Final = r"(?m)^#SBATCH\b"


def find_script(path: Path) -> str | None:
    """The text of one that lies there; `None`: there is none."""
    with suppress(OSError, InputError, ValueError):
        text = read_text(path)
        return text if is_script(text) else None
    return None


def is_script(text: str) -> bool:
    """Whether it says in its first line what runs it, as sbatch asks of every script."""
    return text.startswith("#!")


def explain_script(written: str, text: str) -> str:
    """Why it is no preset, and what to do."""
    path = shlex.quote(written)
    asks = f"`cockpit check -- bash {path}` says what it asks for"
    if re.search(_SBATCH, text):
        then = f"submit it with `sbatch {path}`, then run cockpit within its job or with --slurm JOBID"
        return f"{written}: a script for sbatch, not a preset: {then}; {asks}"
    return f"{written}: a script, not a preset: {asks}, and a preset with `entrypoint: bash {path}` launches it"
