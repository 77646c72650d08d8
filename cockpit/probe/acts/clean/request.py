"""What the parts of one clean-up share: the request, the answer in the making, and how a deed says that it was not done."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Dict, NamedTuple

from ...look.proc import user_name
from ...look.processes import ProcessTable
from ...look.tree import encode_path
from ..host_state import HostScanner, OnProgress, Request, Target


class CleanRefusedError(Exception):
    """It is not removed; its text says why."""


class FailedError(Exception):
    """It could not be removed whole; its text says why, and what is gone."""


class Cleaning(NamedTuple):
    """One clean-up, planned or done."""

    request: Request
    scanner: HostScanner
    on_progress: OnProgress
    answer: Dict[str, Any]

    @property
    def everything(self) -> bool:
        """No session was named."""
        return self.request.get("sessions") is None

    def add_target(self, target: Target, reason: str | None) -> None:
        """Into the plan, or among what is refused."""
        self.answer["refused" if reason else "targets"].append({**target, "reason": reason} if reason else target)

    def note(self, text: str) -> None:
        """Something to know besides."""
        self.answer["notes"].append(text)

    def add_freed_bytes(self, kind: str, size: int) -> None:
        """So many bytes more."""
        self.answer["freed"][kind] += size


def file_target(what: str, path: str, status: os.stat_result) -> Target:
    """A link or a plain file."""
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
    """Why a file of that user is not removed, or `None`. Root removes what somebody has left who runs nothing here any more."""
    if uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        return f"it belongs to {user_name(uid)}: only root may remove it"
    if any(process.details.uid in (uid, None) for process in table.values() if process.alive):
        return f"it belongs to {user_name(uid)}, who still has processes here"
    return None


def sentence(error: Exception) -> str:
    """What went wrong."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "it is no longer a folder: it was replaced"
    return "it is gone" if error.errno == errno.ENOENT else str(error.strerror)
