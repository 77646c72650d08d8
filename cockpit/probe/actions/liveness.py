"""Checks whether a session lives, by its raylet's socket and by the process table, before and during its removal."""

from __future__ import annotations

import os
import time

from ..sample.process_kinds import OWNED_KINDS, SessionFolder
from ..sample.session_folder import answers
from ..trust import own_uids
from .host_state import HostScanner, HostState
from .removal import AliveError

ASK_EVERY, ASK_AFTER_S = 64, 0.1
"""The socket is asked again after this many entries or seconds."""
LOOK_EVERY_S = 1.0
"""Seconds between two scans of all processes; more if a scan takes long."""


def why_alive(state: HostState, session: SessionFolder) -> str | None:
    """The first process that proves it alive, or that may belong to it; `None` if there is none. A left-over child proves nothing.

    Only processes of its owner, of root and of our user count: any user can name a process raylet.
    """
    users = {session.uid, *own_uids(), None}
    for process in state.table.values():
        if not process.alive or process.details.uid not in users:
            continue
        role, verdict = process.origin.role, state.verdicts.get(process.pid)
        named = [process.origin.session, verdict.session if verdict else None]
        carried = [state.sessions.of.get(process.pid), *(SessionFolder(path) for path in named if path)]
        if role in ("raylet", "gcs_server") and not any(carried):
            return f"unknown whether it is alive: {role} {process.pid} runs here, its session is unknown"
        if not any(session.is_same(other) for other in carried if other):
            continue
        if role or (verdict is not None and verdict.kind in OWNED_KINDS):
            return f"it is alive: {role or (verdict.kind if verdict else '')} {process.pid} of it is running"
        if verdict is not None and verdict.kind == "unknown":
            return f"unknown whether it is alive: process {process.pid} may belong to it: {'; '.join(verdict.why)}"
    return None


def why_answers(session: int) -> str | None:
    """The reason by the socket in this open session folder why the session is alive, or may be; `None` if it is dead."""
    answer = answers(session, os.fstat(session).st_uid)
    if answer is None:
        return "unknown whether it is alive: its raylet's socket can't be tested"
    return "it is alive: a raylet listens on its socket" if answer else None


class LivenessGuard:
    """Watches whether one dead session comes alive during its removal."""

    def __init__(self, scanner: HostScanner, session: int, facts: SessionFolder) -> None:
        self._scanner, self._session, self._facts = scanner, session, facts
        self._asks = 0
        self._asked = self._due = 0.0

    def __call__(self, fully: bool = False) -> None:
        """Raises `AliveError`. It is cheap enough to be called for each file."""
        self._asks += 1
        now, why = time.monotonic(), None
        if fully or self._asks % ASK_EVERY == 0 or now - self._asked > ASK_AFTER_S:
            self._asked = now
            why = why_answers(self._session)
        if why is None and (fully or now > self._due):
            why = why_alive(self._scanner.scan(0.0), self._facts)
            self._due = time.monotonic() + max(LOOK_EVERY_S, 20 * (time.monotonic() - now))
        if why is not None:
            raise AliveError(why)
