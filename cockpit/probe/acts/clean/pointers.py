"""Removes what points at sessions or clusters in a temp dir of Ray, once it points at nothing."""

from __future__ import annotations

import errno
import os
from typing import Collection, Tuple

from ...look.kinds import SessionFolder
from ...look.temp_dirs import FILE, LINK, SessionPointer, pointer, points_at, serves
from ...look.tree import decode_path, encode_path, file_id, why_shared
from ...trust import FOLDER_PLACE, open_fd
from ..host_state import HostState, Target
from ..liveness import why_alive
from .request import Cleaning, CleanRefusedError, file_target, not_ours

NAMES = {"link": LINK, "file": FILE}


def plan(cleaning: Cleaning, look: HostState, temp: str, leaving: Collection[str]) -> None:
    """What goes of that temp dir. `leaving` are the sessions in it that this clean-up removes whole."""
    for what, name in NAMES.items():
        found = pointer(temp, name)
        if found is None or not (cleaning.everything or (what == "link" and points_at(found) in leaving)):
            continue
        why, reason = _judge(found, look, leaving)
        if why or reason:
            cleaning.add_target({**file_target(what, found.path, found.status), "why": [why] if why else []}, reason)


def do(cleaning: Cleaning, target: Target) -> str:
    """What became of it. Raises `CleanRefusedError`, `OSError`."""
    temp, name = os.path.split(decode_path(target["path"]))
    found = pointer(temp, name) if name == NAMES[target["what"]] else None
    if found is None or file_id(found.status) != (target["device"], target["inode"]):
        raise CleanRefusedError("it is gone or was replaced")
    sessions = [decode_path(done["path"]) for done in cleaning.answer["done"] if done["what"] == "session"]
    gone = [os.path.basename(path) for path in sessions if os.path.dirname(path) == temp and not os.path.lexists(path)]
    why, reason = _judge(found, cleaning.scanner.look(0.0), gone)
    if why is None or reason is not None:
        raise CleanRefusedError(reason or "its target exists")
    remove(found)
    return f"removed: {why}"


def _judge(found: SessionPointer, look: HostState, leaving: Collection[str]) -> Tuple[str | None, str | None]:
    """Why it goes, and why it does not; neither when it is good."""
    if found.name == FILE:
        lives, why = serves(found, look.table, look.sessions.folders)
        if lives is not False:
            return None, why if lives is None else None
        return why, _not_here(found) or not_ours(found.status.st_uid, look.table)
    why_dangling = _dangles(found, leaving)
    if why_dangling is None:
        return None, None
    told_to = os.geteuid() == 0 and points_at(found) in leaving  # then it goes with its session, whoever owns it
    return why_dangling, _not_here(found) or why_alive(look, _target(found)) or (
        None if told_to else not_ours(found.status.st_uid, look.table)
    )


def _target(link: SessionPointer) -> SessionFolder:
    """The session that it names, which is gone or goes: nobody but the link's owner tells whose it was."""
    return SessionFolder(f"{link.temp}/{points_at(link)}", uid=link.status.st_uid)


def _not_here(found: SessionPointer) -> str | None:
    """Why it may be another host's, or `None`."""
    with open_fd(found.temp, FOLDER_PLACE) as temp:
        shared = why_shared(temp)
    return shared and f"{shared}: its target may be alive on another host"


def remove(found: SessionPointer) -> None:
    """Exactly that one: what has been put in its place since is left."""
    with open_fd(found.temp, FOLDER_PLACE) as temp:
        if file_id(os.stat(found.name, dir_fd=temp, follow_symlinks=False)) != file_id(found.status):
            raise FileNotFoundError(errno.ENOENT, "it was replaced")
        os.unlink(found.name, dir_fd=temp)


def _dangles(link: SessionPointer, leaving: Collection[str]) -> str | None:
    """Why the link is good for nothing, or `None`. `leaving` are sessions in the same folder that are about to go."""
    name = points_at(link)
    if name in leaving:
        return f"it points at {encode_path(name)}, which is removed too"
    if os.path.lexists(f"{link.temp}/{name}") or os.path.exists(os.path.join(link.temp, link.says)):
        return None
    return f"it points at {encode_path(name)}, which is gone"
