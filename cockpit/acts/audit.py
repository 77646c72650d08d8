"""The log of every act: one JSON line before it begins and one when it is over, so that not even a `kill -9` in between hides it."""

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

from cockpit.acts.plan import Plan, Receipt, Target
from cockpit.output import escape_json
from cockpit.trust import is_plain, why_not_ours

BY_PATH = ("session", "link", "file", "shm", "host")
"""Kinds of targets whose path or name says what they are."""


def audit_path() -> Path:
    """Where the log lies: `$XDG_STATE_HOME/cockpit/acts.jsonl`."""
    return platformdirs.user_state_path("cockpit") / "acts.jsonl"


class Audit:
    """Appends. A line is one write to a locked file, so that two cockpits never mix theirs."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock

    def begin(self, plan: Plan) -> str:
        """Before anything is done; the act's id, which both lines have. Raises `OSError`."""
        act = uuid4().hex[:12]
        self._write(act, plan, "begun")
        return act

    def end(self, act: str, plan: Plan, receipt: Receipt | None, error: str | None = None) -> None:
        """With what became of it; no receipt: it was broken off. Raises `OSError`."""
        self._write(act, plan, outcome_of(receipt) if receipt is not None else {"broken_off": error or "cancelled"})

    def _write(self, act: str, plan: Plan, outcome: object) -> None:
        line = {
            "time": round(self._clock(), 3),
            "id": act,
            "user": user_name(),
            "host": socket.gethostname(),
            "act": plan.act,
            "target": list(plan.hosts),
            "plan": [brief(target, plan.act, plan.titles) for target in plan.targets],
            "outcome": outcome,
        }
        self._append(escape_json(msgspec.json.encode(line).decode()).encode() + b"\n")  # whoever reads it may use no more than `cat`

    def _append(self, data: bytes) -> None:
        if (reason := why_not_ours(self._path.parent)) is not None:
            raise OSError(errno.EPERM, f"its folder: {reason}")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(self._path, flags, 0o600)
        try:
            if not is_plain(os.fstat(handle)):
                raise OSError(errno.EPERM, "it belongs to another user, or is not a regular file")
            with suppress(OSError):  # a file system without locks: then a line is still one write
                fcntl.flock(handle, fcntl.LOCK_EX)
            data = b"\n" + data if _is_torn(handle) else data
            written = os.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        if written != len(data):
            raise OSError("the disk is full")


def _is_torn(handle: int) -> bool:
    """Whether the last line was cut off, by a full disk: it must not spoil the next one."""
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"


def user_name() -> str:
    """Who runs this; the uid where it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def outcome_of(receipt: Receipt) -> dict[str, Any]:
    """What became of each target, as the log and `--json` say it."""
    return {
        "done": [brief(target, receipt.act, receipt.titles) for target in receipt.done],
        "refused": [brief(target, receipt.act, receipt.titles) for target in receipt.refused],
        "failed": [
            *(brief(target, receipt.act, receipt.titles) for target in receipt.failed),
            *({"host": one.host, "act": receipt.act, "target": one.host, "why": "", "error": one.error} for one in receipt.unreached),
        ],
        "freed": msgspec.to_builtins(receipt.freed),
        "notes": list(receipt.notes),
    }


def brief(target: Target, act: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """One target with every field that is known, its name first: the rows of `--json`. `host_title`: what people call its host."""
    known = {name: value for name, value in msgspec.to_builtins(target).items() if name != "host" and value not in (None, [], ())}
    why = "; ".join(known.pop("why", ()))
    title = {"host_title": titles[target.host]} if titles.get(target.host, target.host) != target.host else {}
    return {"host": target.host, **title, "act": act, "target": title_of(target), "why": why, **known}


def title_of(target: Target) -> str:
    """What a person calls it, short."""
    if target.what == "process":
        return f"pid {target.pid}"
    if target.what in BY_PATH:
        return target.path or target.name or target.what
    return f"{target.what.replace('_', ' ')} {target.name or target.class_ or target.id}"
