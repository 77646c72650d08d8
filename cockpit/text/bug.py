"""Writes the sentence for an error in cockpit itself."""

from __future__ import annotations

import traceback
from pathlib import Path

from cockpit.secrets import redact


def bug(error: BaseException) -> str:
    """Return one sentence with the error and its place in the code, without secrets or values of variables."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"cockpit has a bug: {type(error).__name__}: {redact(str(error))[:200]}{where}"
