"""What is said of a mistake of cockpit's own."""

from __future__ import annotations

import traceback
from pathlib import Path

from cockpit.secrets import redact


def bug(error: BaseException) -> str:
    """One sentence for a report, wherever the cluster brought the mistake out: the error and its place, without the values of variables."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"cockpit has a bug: {type(error).__name__}: {redact(str(error))[:200]}{where}"
