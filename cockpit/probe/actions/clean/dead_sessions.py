"""Plans and carries out the removal of dead sessions, and stops if one comes alive meanwhile."""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import Dict, Iterable, Iterator, Mapping, NamedTuple

from ... import trust
from ...sample.proc import user_name
from ...sample.process_kinds import SessionFolder
from ...sample.sessions import Folder, is_session
from ...sample.tree import MovedError, current_path, decode_path, encode_path, file_id, mounted_in, shown_path, why_shared
from ..holders import describe_uses, find_file_uses, why_in_use
from ..host_state import HostState, Request, Target
from ..liveness import LivenessGuard, why_alive, why_answers
from ..removal import MARKS, AliveError, Removal, Survey, in_words
from .request import Cleaning, CleanRefusedError, FailedError, sentence

MIN_QUIET_S = 10.0
"""Seconds to watch a session folder that has just been changed: a Ray that is starting may have created it."""
KEEPS, MAX_NAMEABLE = 100, 1024
"""Protected paths listed of a session, and characters up to which a path is listed in full. All protected files are kept."""


class _Opened(NamedTuple):
    """A session's folder, held open, so that the checked folder is the one that is removed, even if another one replaces it."""

    path: str
    parent: int
    folder: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def status(self) -> os.stat_result:
        return os.fstat(self.folder)

    @property
    def facts(self) -> SessionFolder:
        return SessionFolder(self.path, file_id(self.status), self.status.st_uid)


def wait_and_scan(cleaning: Cleaning) -> HostState:
    """Scans the host, but first waits until no dead session of the request has just been changed."""
    for name in map(decode_path, cleaning.request.get("sessions") or ()):
        if "/" in name:
            cleaning.scanner.add_temp_dir(os.path.dirname(os.path.abspath(name)))
    state = cleaning.scanner.scan(0.0)
    _wait_while_young(cleaning, [folder.path for folder in select_sessions(cleaning.request, state) if not folder.answers])
    return cleaning.scanner.scan(0.0)


def _wait_while_young(cleaning: Cleaning, paths: Iterable[str]) -> None:
    young: Dict[str, float] = {}
    ended = cleaning.request.get("ended") or ()
    for path in (path for path in paths if os.path.basename(path) not in ended):
        with suppress(OSError):  # it is gone, or we may not read it
            left = MIN_QUIET_S - (time.time() - os.stat(path).st_mtime)
            if left > 0:
                young[path] = min(MIN_QUIET_S, left)
    if young:
        latest = os.path.basename(max(young, key=young.__getitem__))
        cleaning.on_progress(f"{latest} was changed just now: waiting to see whether it starts", None, None)
        time.sleep(max(young.values()))


def select_sessions(request: Request, state: HostState) -> list[Folder]:
    """The sessions that the request names, or all of them; dead or not."""
    named = request.get("sessions")
    return [
        folder for folder in state.sessions.folders if named is None or any(is_called(folder.path, decode_path(name)) for name in named)
    ]


def is_called(path: str, name: str) -> bool:
    """Whether a name or path that a person gave names this session folder."""
    if os.path.basename(path) != os.path.basename(name.rstrip("/")):
        return False
    try:
        return "/" not in name or os.path.samefile(os.path.dirname(path), os.path.dirname(name.rstrip("/")))
    except OSError:
        return False


def plan(cleaning: Cleaning, state: HostState, folder: Folder) -> Target | None:
    """The target for one session; `None` if it stays. Then the answer has the reason."""
    owner = None if folder.facts.uid is None else user_name(folder.facts.uid)
    target: Target = {"what": "session", "path": encode_path(folder.path), "name": os.path.basename(folder.path), "owner": owner}
    try:
        with _open(folder.path) as opened:
            target.update(device=opened.status.st_dev, inode=opened.status.st_ino, uid=opened.status.st_uid)
            reason = _why_not_removed(cleaning.request, state, opened)
            if reason is None:
                return _survey_target(cleaning, opened, target)
    except (OSError, MovedError) as error:
        reason = sentence(error)
    cleaning.add_target({**target, "live": True if folder.answers else None}, reason)
    return None


def _why_not_removed(request: Request, state: HostState, opened: _Opened) -> str | None:
    """The reason for not removing this session, or `None`."""
    alive = why_answers(opened.folder) or why_alive(state, opened.facts)
    if alive is not None:
        return alive

    # Somebody may have given another folder the name of a session. Ray creates these folders in each session, and its owner owns them.
    for name in MARKS:
        try:
            status = os.stat(name, dir_fd=opened.folder, follow_symlinks=False)
        except OSError:
            return f"it may not be a session folder: it has no {name}"
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != opened.status.st_uid:
            return f"it may not be a session folder: {name} in it is not a folder of its owner"

    # Root does not trust a temp dir that others can replace, unless a person has named the session by its path.
    names = [decode_path(name) for name in request.get("sessions") or ()]
    if os.geteuid() == trust.ROOT and not any("/" in name and is_called(opened.path, name) for name in names):
        reason = trust.why_not_believed(os.path.dirname(opened.path))
        if reason is not None:
            how = "to remove this session, put the cursor on it, or name its path by --session"
            return f"{reason}, so files there may have been replaced: {how}"

    shared = why_shared(opened.folder)
    if shared is not None:
        return f"{shared}: the session may be alive on another host"
    uid, me = opened.status.st_uid, os.geteuid()
    if uid != me and me != 0:
        return f"it belongs to {user_name(uid)}: only root may remove it"
    if uid != me and not any(is_called(opened.path, name) for name in names):
        return f"it belongs to {user_name(uid)}: to remove it, put the cursor on it, or name it by --session"
    mounted = mounted_in(current_path(opened.folder) or opened.path)
    return f"something is mounted in it, at {encode_path(mounted)}: unmount that first" if mounted is not None else None


def _survey_target(cleaning: Cleaning, opened: _Opened, target: Target) -> Target | None:
    survey = Survey(opened.name, opened.folder, cleaning.on_progress)
    young = _why_too_young(cleaning.request, survey)
    if young is not None:
        if cleaning.everything:
            cleaning.note(f"{opened.name} is kept: {young}")
        else:
            cleaning.add_target(target, young)
        return None
    named = _find_named(cleaning.request, opened)
    kept = {path: None for path in survey.protected.found if not any(path == one or path.startswith(f"{one}/") for one in named)}
    keeps = [encode_path(path) if len(path) < MAX_NAMEABLE else shown_path(path) for path in kept]
    files, size = survey.count_without(kept)
    for text in (
        *survey.unread.sentences(lambda path, text: f"{shown_path(path) or 'its folder'} can't be read and is kept: {text}"),
        *survey.foreign.sentences(lambda path, text: f"{shown_path(path)} is kept: {text}"),
    ):
        cleaning.note(f"{opened.name}: {text}")
    for path in named:
        if not any(protected == path or protected.startswith(f"{path}/") for protected in survey.protected.found):
            cleaning.note(f"{opened.name}: no protected file has the path {encode_path(path)}")
    if (more := len(keeps) - KEEPS) > 0:
        cleaning.note(f"{opened.name}: {more} more protected {'file is' if more == 1 else 'files are'} kept and not listed")
    known = not survey.unread.number
    if known and keeps and files == 0:
        cleaning.note(f"{opened.name}: nothing to remove, all that is left in it is protected")
        return None
    return {
        **target,
        "live": False,
        "size": size if known else None,
        "files": files if known else None,
        "age": round(survey.age, 1),
        "keeps": keeps[:KEEPS],
        "why": ["no raylet listens on its socket", "no process of it runs here"],
    }


def _why_too_young(request: Request, survey: Survey) -> str | None:
    """The reason why it is younger than `older_than` of the request, or `None`."""
    older_than = request.get("older_than")
    is_young = older_than is not None and survey.age < float(older_than)
    return f"a file in it was written {survey.age / 3600:.1f} hours ago" if is_young else None


def _find_named(request: Request, opened: _Opened) -> Mapping[str, None]:
    """The protected files of this session that a person named, relative to its folder."""
    paths = (decode_path(path) for path in request.get("protected") or ())
    return dict.fromkeys(path[len(opened.path) + 1 :].rstrip("/") for path in paths if path.startswith(f"{opened.path}/"))


def do(cleaning: Cleaning, target: Target) -> str:
    """Removes one session, and returns the outcome. Raises `CleanRefusedError`, `FailedError`, `MovedError`, `OSError`."""
    path = decode_path(target["path"])
    if not is_session(os.path.basename(path)):
        raise CleanRefusedError("not a session folder")
    with _open(path) as opened:
        if file_id(opened.status) != (target["device"], target["inode"]):
            raise CleanRefusedError("it was replaced after the plan was made")
        _wait_while_young(cleaning, [path])
        cleaning.on_progress(f"{opened.name}: checking whether it is alive")
        state = cleaning.scanner.scan(0.0)
        reason = _why_not_removed(cleaning.request, state, opened)
        if reason is not None:
            raise CleanRefusedError(reason)
        return _empty_folder(cleaning, opened, state)


def _empty_folder(cleaning: Cleaning, opened: _Opened, state: HostState) -> str:
    survey = Survey(opened.name, opened.folder, cleaning.on_progress)
    young = _why_too_young(cleaning.request, survey)
    if young is not None:
        raise CleanRefusedError(young)
    uses, hanging = find_file_uses(state.table, cleaning.on_progress)
    used = [hold for hold in uses if hold.session == opened.name]
    in_use = why_in_use(state, used, hanging, opened.name, opened.status.st_uid)
    if in_use is not None:
        raise CleanRefusedError(in_use)
    for text in describe_uses(used, state.table, opened.name):
        cleaning.note(text)
    check = LivenessGuard(cleaning.scanner, opened.folder, opened.facts)
    removal = Removal(
        opened.name,
        survey.protected,
        _find_named(cleaning.request, opened),
        {hold.path for hold in used},
        check,
        cleaning.on_progress,
        survey.folders,
    )
    stopped: Exception | None = None
    try:
        removal.empty(opened.folder, survey.files)
        removal.remove(opened.parent, opened.name, opened.folder)
    except (AliveError, MovedError, OSError) as error:
        stopped = error
    cleaning.answer["freed"]["disk"] += removal.freed

    removed = f"{removal.files:,} file{'' if removal.files == 1 else 's'} removed, {in_words(removal.freed)} freed"
    if isinstance(stopped, AliveError):
        raise FailedError(f"stopped midway: {stopped}; before that, {removed}")
    if stopped is not None:
        raise FailedError(f"{sentence(stopped)}; before that, {removed}")
    if removal.failed.number:
        path, text = removal.failed.first[0]
        more = f" (and {removal.failed.number - 1} more)" if removal.failed.number > 1 else ""
        raise FailedError(f"{shown_path(path) or 'its folder'} could not be removed: {text}{more}; {removed}")
    kept = list(removal.kept)
    if not kept:
        return removed
    return f"{removed}; kept {shown_path(kept[0])}" + (f" and {len(kept) - 1} more" if kept[1:] else "")


@contextmanager
def _open(path: str) -> Iterator[_Opened]:
    """The last part of the path must not be a link. Raises `OSError`."""
    with trust.open_fd(os.path.dirname(path), trust.FOLDER_PLACE) as parent, trust.open_fd(os.path.basename(path), folder=parent) as folder:
        yield _Opened(path, parent, folder)


def describe_unknown(request: Request, state: HostState) -> Iterator[str]:
    """A sentence for each named session that does not exist here, or that is only a link."""
    for name in request.get("sessions") or ():
        if not any(is_called(folder.path, decode_path(name)) for folder in state.sessions.folders):
            link = "/" in name and os.path.islink(decode_path(name).rstrip("/"))
            yield f"{name} is a link, not a session folder" if link else f"there is no session {name} here"
