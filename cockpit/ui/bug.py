"""What is said of a bug of ours: where it is, and no value on the way to it."""

from __future__ import annotations

import traceback
from pathlib import Path

from cockpit.text import clean, redact


def bug(error: BaseException | None) -> str:
    """One sentence that somebody can paste into a report."""
    place = traceback.extract_tb(error.__traceback__)[-1] if error and error.__traceback__ else None
    where = f" ({Path(place.filename).name}:{place.lineno})" if place else ""
    return clean(redact(f"cockpit has a bug: {type(error).__name__}: {error}{where}"))
