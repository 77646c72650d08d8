"""The sentence for a bug of cockpit's own: the error and its place, without the values of variables."""

from __future__ import annotations

import traceback
from pathlib import Path

from cockpit.secrets import redact
from cockpit.text import clean


def bug_sentence(error: BaseException | None) -> str:
    """One sentence that somebody can paste into a report."""
    place = traceback.extract_tb(error.__traceback__)[-1] if error and error.__traceback__ else None
    where = f" ({Path(place.filename).name}:{place.lineno})" if place else ""
    return clean(redact(f"cockpit has a bug: {type(error).__name__}: {error}{where}"))
