"""Removes `session_latest` and `ray_current_cluster` from a temp dir of Ray when they point to nothing that lives."""

from __future__ import annotations

import errno
import os
from typing import Collection, Tuple

from ...sample.process_kinds import SessionFolder
from ...sample.temp_dirs import FILE, LINK, SessionPointer, has_live_cluster, read_pointer
from ...sample.tree import decode_path, encode_path, file_id, why_shared
from ...trust import FOLDER_PLACE, open_fd
from ..host_state import HostState, Target
from ..liveness import why_alive
from .request import Cleaning, CleanRefusedError, file_target, not_ours

NAMES = {"link": LINK, "file": FILE}


def plan(cleaning: Cleaning, state: HostState, temp: str, leaving: Collection[str]) -> None:
    """Adds the pointers of one temp dir to the plan. `leaving`: the sessions in it that this clean-up removes completely."""
    for what, name in NAMES.items():
        found = read_pointer(temp, name)
        if found is None or not (cleaning.everything or (what == "link" and found.session in leaving)):
            continue
        why, reason = _judge(found, state, leaving)
        if why or reason:
            cleaning.add_target({**file_target(what, found.path, found.status), "why": [why] if why else []}, reason)


def do(cleaning: Cleaning, target: Target) -> str:
    """Removes one pointer, and returns the outcome. Raises `CleanRefusedError`, `OSError`."""
    temp, name = os.path.split(decode_path(target["path"]))
    found = read_pointer(temp, name) if name == NAMES[target["what"]] else None
    if found is None or file_id(found.status) != (target["device"], target["inode"]):
        raise CleanRefusedError("it is gone or was replaced")
    sessions = [decode_path(done["path"]) for done in cleaning.answer["done"] if done["what"] == "session"]
    gone = [os.path.basename(path) for path in sessions if os.path.dirname(path) == temp and not os.path.lexists(path)]
    why, reason = _judge(found, cleaning.scanner.scan(0.0), gone)
    if why is None or reason is not None:
        raise CleanRefusedError(reason or "its target exists")
    remove(found)
    return f"removed: {why}"


def _judge(found: SessionPointer, state: HostState, leaving: Collection[str]) -> Tuple[str | None, str | None]:
    """The reason for removing it, and the reason for keeping it all the same; both `None` if it is good."""
    if found.name == FILE:
        lives, why = has_live_cluster(found, state.table, state.sessions.folders)
        if lives is not False:
            return None, why if lives is None else None
        return why, _why_elsewhere(found) or not_ours(found.status.st_uid, state.table)

    name = found.session
    if name in leaving:
        why = f"it points at {encode_path(name)}, which is removed too"
    elif os.path.lexists(f"{found.temp}/{name}") or os.path.exists(os.path.join(found.temp, found.target)):
        return None, None
    else:
        why = f"it points at {encode_path(name)}, which is gone"
    # The session is gone or will go. Only the owner of the link shows whose it was.
    session = SessionFolder(f"{found.temp}/{name}", uid=found.status.st_uid)
    reason = _why_elsewhere(found) or why_alive(state, session)
    if reason is None and not (os.geteuid() == 0 and name in leaving):  # root removes it together with its session, of any owner
        reason = not_ours(found.status.st_uid, state.table)
    return why, reason


def _why_elsewhere(found: SessionPointer) -> str | None:
    """The reason why its target may live on another host, or `None`."""
    with open_fd(found.temp, FOLDER_PLACE) as temp:
        shared = why_shared(temp)
    return shared and f"{shared}: its target may be alive on another host"


def remove(found: SessionPointer) -> None:
    """Removes exactly this file; a file that has replaced it stays."""
    with open_fd(found.temp, FOLDER_PLACE) as temp:
        if file_id(os.stat(found.name, dir_fd=temp, follow_symlinks=False)) != file_id(found.status):
            raise FileNotFoundError(errno.ENOENT, "it was replaced")
        os.unlink(found.name, dir_fd=temp)
