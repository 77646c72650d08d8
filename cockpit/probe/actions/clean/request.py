"""Holds the request and the growing answer of one clean-up, and the errors and checks that its parts share."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Dict, NamedTuple

from ...sample.proc import user_name
from ...sample.processes import ProcessTable
from ...sample.tree import encode_path
from ..host_state import HostScanner, OnProgress, Request, Target


class CleanRefusedError(Exception):
    """The target is not removed; the text is the reason."""


class FailedError(Exception):
    """The target could not be removed completely; the text has the reason, and how much was removed."""


class Cleaning(NamedTuple):
    """One clean-up, in the stage `plan` or `do`."""

    request: Request
    scanner: HostScanner
    on_progress: OnProgress
    answer: Dict[str, Any]

    @property
    def everything(self) -> bool:
        """Whether everything is cleaned, because no session was named."""
        return self.request.get("sessions") is None

    def add_target(self, target: Target, reason: str | None) -> None:
        """Adds a target to the plan, or with a reason to the refused ones."""
        self.answer["refused" if reason else "targets"].append({**target, "reason": reason} if reason else target)

    def note(self, text: str) -> None:
        """Adds a note to the answer."""
        self.answer["notes"].append(text)


def file_target(what: str, path: str, status: os.stat_result) -> Target:
    """A link or a regular file as a target."""
    return {
        "what": what,
        "path": encode_path(path),
        "device": status.st_dev,
        "inode": status.st_ino,
        "owner": user_name(status.st_uid),
        "uid": status.st_uid,
        "age": round(max(0.0, time.time() - status.st_mtime), 1),
    }


def not_ours(uid: int, table: ProcessTable) -> str | None:
    """The reason for not removing a file of this user, or `None`. Root removes files of a user who has no processes here any more."""
    if uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        return f"it belongs to {user_name(uid)}: only root may remove it"
    if any(process.details.uid in (uid, None) for process in table.values() if process.alive):
        return f"it belongs to {user_name(uid)}, who still has processes here"
    return None


def sentence(error: Exception) -> str:
    """The text of an error for the answer."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "it is no longer a folder: it was replaced"
    return "it is gone" if error.errno == errno.ENOENT else str(error.strerror)
