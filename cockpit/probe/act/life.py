"""Whether a session lives: what its raylet's socket and the process table say, now, and again and again while it is removed."""

from __future__ import annotations

import os
import time

from ..kinds import OWNED
from ..sessions import answers
from .look import Look, Watcher
from .remove import AliveError

ASK_EVERY, ASK_AFTER = 64, 0.1
"""Entries, or seconds, after which the socket is asked again."""
LOOK_EVERY = 1.0
"""Seconds between two looks at all processes; more where a look takes long."""


def why_alive(look: Look, name: str) -> str | None:
    """What among the processes speaks for it, or leaves it undecided; `None` when none does. A left-over child is no life."""
    for pid, process in look.forest.items():
        role, verdict = process.origin.role, look.verdicts.get(pid)
        carried = {os.path.basename(path) for path in (process.origin.session, verdict.session if verdict else None) if path}
        if not process.alive:
            continue
        if role in ("raylet", "gcs_server") and not carried:
            return f"whether it lives can't be told: {role} {pid} runs here, and of which session can't be seen"
        if name not in carried:
            continue
        if role or (verdict is not None and verdict.kind in OWNED):
            return f"it lives: {role or (verdict.kind if verdict else '')} {pid} of it runs"
        if verdict is not None and verdict.kind == "unknown":
            return f"whether it lives can't be told: process {pid} may belong to it: {'; '.join(verdict.why)}"
    return None


def why_answers(session: int) -> str | None:
    """What the socket in that open folder says; `None` when it is dead."""
    answer = answers(session)
    if answer is None:
        return "whether it lives can't be told: its raylet's socket can't be asked"
    return "it lives: a raylet listens on its socket" if answer else None


class Vigil:
    """Looks out for one dead session that comes alive."""

    def __init__(self, watcher: Watcher, session: int, name: str) -> None:
        self._watcher, self._session, self._name = watcher, session, name
        self._asks = 0
        self._asked = self._due = 0.0

    def __call__(self, fully: bool = False) -> None:
        """Raises `AliveError`. Cheap enough to be called for every file."""
        self._asks += 1
        now = time.monotonic()
        if fully or self._asks % ASK_EVERY == 0 or now - self._asked > ASK_AFTER:
            self._asked = now
            self._judge(why_answers(self._session))
        if fully or now > self._due:
            self._judge(why_alive(self._watcher.look(0.0), self._name))
            self._due = time.monotonic() + max(LOOK_EVERY, 20 * (time.monotonic() - now))

    def _judge(self, why: str | None) -> None:
        if why is not None:
            raise AliveError(why)
