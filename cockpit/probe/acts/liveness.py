"""Whether a session lives: what its raylet's socket and the process table say, now, and again and again while it is removed."""

from __future__ import annotations

import os
import time

from ..look.kinds import OWNED_KINDS, SessionFolder
from ..look.processes import ScannedProcess
from ..look.session_folder import answers
from ..trust import own_uids
from .host_state import HostScanner, HostState
from .removal import AliveError

ASK_EVERY, ASK_AFTER_S = 64, 0.1
"""Entries, or seconds, after which the socket is asked again."""
LOOK_EVERY_S = 1.0
"""Seconds between two looks at all processes; more where a look takes long."""


def why_alive(look: HostState, session: SessionFolder) -> str | None:
    """What among the processes speaks for it, or leaves it undecided; `None` when none does. A left-over child is no life.

    Only the word of its owner's processes, of root's and of our own counts: anybody may call a process raylet.
    """
    users = {session.uid, *own_uids(), None}
    for process in look.table.values():
        why = _why_alive(look, session, process) if process.alive and process.details.uid in users else None
        if why is not None:
            return why
    return None


def _why_alive(look: HostState, session: SessionFolder, process: ScannedProcess) -> str | None:
    role, verdict = process.origin.role, look.verdicts.get(process.pid)
    named = [process.origin.session, verdict.session if verdict else None]
    carried = [look.sessions.of.get(process.pid), *(SessionFolder(path) for path in named if path)]
    if role in ("raylet", "gcs_server") and not any(carried):
        return f"unknown whether it is alive: {role} {process.pid} runs here, its session is unknown"
    if not any(session.is_same(other) for other in carried if other):
        return None
    if role or (verdict is not None and verdict.kind in OWNED_KINDS):
        return f"it is alive: {role or (verdict.kind if verdict else '')} {process.pid} of it is running"
    if verdict is not None and verdict.kind == "unknown":
        return f"unknown whether it is alive: process {process.pid} may belong to it: {'; '.join(verdict.why)}"
    return None


def why_answers(session: int) -> str | None:
    """What the socket in that open folder says; `None` when it is dead."""
    answer = answers(session, os.fstat(session).st_uid)
    if answer is None:
        return "unknown whether it is alive: its raylet's socket can't be tested"
    return "it is alive: a raylet listens on its socket" if answer else None


class LivenessGuard:
    """Looks out for one dead session that comes alive."""

    def __init__(self, scanner: HostScanner, session: int, facts: SessionFolder) -> None:
        self._scanner, self._session, self._facts = scanner, session, facts
        self._asks = 0
        self._asked = self._due = 0.0

    def __call__(self, fully: bool = False) -> None:
        """Raises `AliveError`. Cheap enough to be called for every file."""
        self._asks += 1
        now = time.monotonic()
        if fully or self._asks % ASK_EVERY == 0 or now - self._asked > ASK_AFTER_S:
            self._asked = now
            self._judge(why_answers(self._session))
        if fully or now > self._due:
            self._judge(why_alive(self._scanner.look(0.0), self._facts))
            self._due = time.monotonic() + max(LOOK_EVERY_S, 20 * (time.monotonic() - now))

    def _judge(self, why: str | None) -> None:
        if why is not None:
            raise AliveError(why)
