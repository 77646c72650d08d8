"""Finds Ray's token where Ray looks for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cockpit.probe.trust import read_begin
from cockpit.trust.ownership import why_not_ours

TOKEN_PLACES: Final = "RAY_AUTH_TOKEN, the file named by RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token"  # noqa: S105 places, no token
_TOKEN_BYTES: Final = 1 << 16


def find_token(env: Mapping[str, str] | None = None, home: Path | None = None) -> str | None:
    """Return Ray's token, searched in Ray's places and order (ray/_private/authentication, 2.60), or `None`.

    An unreadable `RAY_AUTH_TOKEN_PATH` ends the search, as in Ray: the token in the home folder belongs to another cluster.
    """
    env = os.environ if env is None else env
    if token := env.get("RAY_AUTH_TOKEN", "").strip():
        return token
    named = env.get("RAY_AUTH_TOKEN_PATH")
    try:
        path = Path(named).expanduser() if named else (home or Path.home()) / ".ray" / "auth_token"
        if not named and why_not_ours(path) is not None:
            return None
        return read_small(path).decode("utf-8").strip() or None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: the home folder is unknown
        return None


def read_small(path: Path) -> bytes:
    """Read a token file, or a file beside one. A pipe or device is not opened. Raises `OSError`."""
    return read_begin(str(path), _TOKEN_BYTES, link=0)
