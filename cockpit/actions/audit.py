"""Writes the log of actions: one JSON line before an action begins and one when it has ended, so even a `kill -9` in between shows."""

from __future__ import annotations

import errno
import fcntl
import getpass
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import platformdirs

from cockpit.actions.plan import Plan, Receipt, Target
from cockpit.text.output import escape_json
from cockpit.trust import is_plain, why_not_ours

BY_PATH = ("session", "link", "file", "shm", "host")
"""Kinds of targets that are named by their path."""


def audit_path() -> Path:
    """Return the path of the log, `$XDG_STATE_HOME/cockpit/acts.jsonl`."""
    return platformdirs.user_state_path("cockpit") / "acts.jsonl"


class Audit:
    """Appends to the log. Each line is one write to a locked file, so that two cockpits never mix their lines."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock

    def begin(self, plan: Plan) -> str:
        """Write the line before an action. Return the id that both lines have. Raises `OSError`."""
        log_id = uuid4().hex[:12]
        self._write(log_id, plan, "begun")
        return log_id

    def end(self, log_id: str, plan: Plan, receipt: Receipt | None, error: str | None = None) -> None:
        """Write the outcome. Without a receipt the action was broken off. Raises `OSError`."""
        self._write(log_id, plan, outcome_of(receipt) if receipt is not None else {"broken_off": error or "cancelled"})

    def _write(self, log_id: str, plan: Plan, outcome: object) -> None:
        line = {
            "time": round(self._clock(), 3),
            "id": log_id,
            "user": user_name(),
            "host": socket.gethostname(),
            "act": plan.action,
            "target": list(plan.hosts),
            "plan": [brief(target, plan.action, plan.titles) for target in plan.targets],
            "outcome": outcome,
        }
        data = escape_json(msgspec.json.encode(line).decode()).encode() + b"\n"  # people may read the log with `cat`
        if (reason := why_not_ours(self._path.parent)) is not None:
            raise OSError(errno.EPERM, f"its folder: {reason}")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(self._path, flags, 0o600)
        try:
            if not is_plain(os.fstat(handle)):
                raise OSError(errno.EPERM, "it belongs to another user, or is not a regular file")
            with suppress(OSError):  # some file systems have no locks; a line is still one write
                fcntl.flock(handle, fcntl.LOCK_EX)
            # A full disk may have cut off the last line.
            size = os.fstat(handle).st_size
            if size > 0 and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data
            written = os.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        if written != len(data):
            raise OSError("the disk is full")


def user_name() -> str:
    """Return the current user's name, or the uid if it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def outcome_of(receipt: Receipt) -> dict[str, Any]:
    """Return the outcome of each target, for the log and for `--json`."""
    done, refused, failed = (
        [brief(target, receipt.action, receipt.titles) for target in targets] for targets in (receipt.done, receipt.refused, receipt.failed)
    )
    failed += [{"host": one.host, "act": receipt.action, "target": one.host, "why": "", "error": one.error} for one in receipt.unreached]
    freed = msgspec.to_builtins(receipt.freed)
    return {"done": done, "refused": refused, "failed": failed, "freed": freed, "notes": list(receipt.notes)}


def brief(target: Target, action: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return a target as a row of `--json`: every known field, its name first. `titles` maps hosts to the names that people use."""
    known = {name: value for name, value in msgspec.to_builtins(target).items() if name != "host" and value not in (None, [], ())}
    why = "; ".join(known.pop("why", ()))
    title = {"host_title": titles[target.host]} if titles.get(target.host, target.host) != target.host else {}
    return {"host": target.host, **title, "act": action, "target": title_of(target), "why": why, **known}


def title_of(target: Target) -> str:
    """Return the short name of a target."""
    if target.what == "process":
        return f"pid {target.pid}"
    if target.what in BY_PATH:
        return target.path or target.name or target.what
    return f"{target.what.replace('_', ' ')} {target.name or target.class_ or target.id}"
