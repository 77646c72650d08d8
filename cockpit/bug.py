"""What is said of a mistake of cockpit's own."""

from __future__ import annotations

from cockpit.secrets import redact


def bug(error: BaseException) -> str:
    """One sentence, wherever the cluster brought the mistake out."""
    return f"cockpit has a bug: {type(error).__name__}: {redact(str(error))[:200]}"
