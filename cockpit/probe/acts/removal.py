"""Counts what is in a folder, and removes it: entry by entry, by descriptors, so that nothing outside of it can be lost.

A name is removed from the folder that is held open, never by a path. Before each it is made sure that this folder still lies where it lay:
what somebody moves out meanwhile stays, but for the entry that was just being removed. Nothing is ever removed by its content: of a file
with other names only this one goes.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Callable, Collection, Container, Dict, Iterable, Iterator, List, Set, Tuple

from ..look.proc import user_name
from ..look.sizes import ProtectedFiles
from ..look.tree import FileId, FolderEntry, Walk, file_id
from .host_state import Tell, tell_seldom

PASSES = 3
"""How often a folder is gone through, when somebody still writes into it."""
TELL_INTERVAL_S = 0.2
MOST_PATHS_CHARS = 32 << 20
"""Of the files whose sizes are remembered one by one: everybody may fill a session's folder."""
MOST_REMARKS = 10
"""Told one by one, of each kind."""
LAST = "sockets"
"""The folder of a session that tells whether it lives."""
MARKS = ("logs", LAST)
"""What a folder must have to be a session's; they stay, empty, where something else stays that may be removed later."""


class AliveError(Exception):
    """It must not be removed any more; its text says why."""


class Remarks:
    """What is said of paths of which there may be very many: of the first few, and how many more."""

    def __init__(self) -> None:
        self.first: List[Tuple[str, str]] = []
        """Path and text."""
        self.number = 0
        self._last: str | None = None

    def add(self, path: str, text: str) -> None:
        """One more."""
        self.number, self._last = self.number + 1, path
        if len(self.first) < MOST_REMARKS:
            self.first.append((path, text))

    def is_last(self, path: str) -> bool:
        """Whether it was added last."""
        return path == self._last

    def tell(self, sentence: Callable[[str, str], str]) -> Iterator[str]:
        """A sentence each, and one of how many more there are."""
        yield from (sentence(path, text) for path, text in self.first)
        if self.number > len(self.first):
            yield f"the same applies to {self.number - len(self.first):,} more"


class Survey:
    """What lies in a folder. `size` is what lies on the disk, in bytes; of a file with several names here it is counted once."""

    def __init__(self, name: str, tell: Tell) -> None:
        self.files = 0
        self.size = 0
        self.newest = 0.0
        """When anything in it was last written."""
        self.protected = ProtectedFiles()
        self.folders: Set[FileId] = set()
        """Those in it that are its owner's: nothing else is gone into when it is removed."""
        self.foreign = Remarks()
        """Folders of other users, which stay with all that is in them."""
        self.unread = Remarks()
        """What could not be looked into, and why."""
        self._sizes: Dict[str, int] = {}
        """By path, of each of the first files; of a file with several names once."""
        self._name, self._tell = name, tell_seldom(tell, TELL_INTERVAL_S)
        self._linked: Set[int] = set()
        self._path_chars = 0
        self._owner = -1

    def take(self, top: int) -> Survey:
        """Goes through it all. Raises `MovedError`, `OSError`."""
        self.newest = os.fstat(top).st_mtime
        self._owner = os.fstat(top).st_uid
        for entry in Walk(top, trouble=self._note, why_not=self._why_not):
            self._count(entry)
            if self.protected.are_too_many:
                raise OSError(errno.E2BIG, "too many files in it look like checkpoints or results to list them: check the folder yourself")
            self._tell(f"{self._name}: {self.files:,} file{'' if self.files == 1 else 's'} counted, {in_words(self.size)}")
        return self

    @property
    def age(self) -> float:
        """Seconds since then."""
        return max(0.0, time.time() - self.newest)

    def _count(self, entry: FolderEntry) -> None:
        status = entry.status
        self.newest = max(self.newest, status.st_mtime)
        self.protected.see(entry)
        if entry.is_folder:
            return
        self.files += 1
        is_counted = status.st_nlink > 1 and status.st_ino in self._linked
        if status.st_nlink > 1:
            self._linked.add(status.st_ino)
        size = 0 if is_counted else status.st_blocks * 512
        self.size += size
        self._path_chars += len(entry.path)
        if self._path_chars < MOST_PATHS_CHARS:
            self._sizes[entry.path] = size

    def count_without(self, kept: Collection[str]) -> Tuple[int | None, int | None]:
        """Files and bytes of what goes where these files, and all that lies in these folders, stay; `None`: of so many it is not known."""
        if not kept:
            return self.files, self.size
        if len(self._sizes) < self.files:
            return None, None
        going = [size for path, size in self._sizes.items() if not any(above in kept for above in _paths_to(path))]
        return len(going), sum(going)

    def _why_not(self, path: str, status: os.stat_result) -> str | None:
        """Ray's folders can be written by everybody: somebody may move one of another user's into it, to have it removed by root."""
        if status.st_uid == self._owner:
            self.folders.add(file_id(status))
            return None
        reason = f"it belongs to {user_name(status.st_uid)}"
        self.foreign.add(path, reason)
        return reason

    def _note(self, path: str, text: str) -> None:
        if not self.foreign.is_last(path):
            self.unread.add(path, text)


class Removal:
    """Removes what lies in one folder, but for what is to be kept."""

    def __init__(
        self, name: str, protected: ProtectedFiles, named: Iterable[str], held: Container[str], check: Callable[[bool], None], tell: Tell,
        folders: Container[FileId],
    ) -> None:  # fmt: skip
        """What is protected stays, unless it is `named`, or a folder above it. What is `held` open frees no space yet.

        `folders`: those that are gone into, as a `Survey` has found them.

        `check` is asked before each entry, and with true once more before the last folder; it raises `AliveError`.
        """
        self.files = 0
        self.freed = 0
        """Bytes of the files whose last name was removed, and that nobody holds open."""
        self.kept: Dict[str, None] = {}
        self.failed = Remarks()
        """What could not be removed, and why."""
        self._name, self._protected, self._named, self._held, self._check = name, protected, tuple(named), held, check
        self._tell = tell_seldom(tell, TELL_INTERVAL_S)
        self._keeps_marks = any(not self._is_named(path) for path in protected.found)
        self._folders = folders
        self._stay: Set[str] = set()
        self._again = False

    def empty(self, top: int, files: int) -> None:
        """Raises `AliveError` or `MovedError`; what was removed until then has been counted. `files` is how many there are."""
        for _ in range(PASSES):
            self._again = False
            walk = Walk(top, self._enter, self._fail, LAST, self._why_not)
            for entry in walk:
                self._check(False)
                walk.check_not_moved()
                self._remove(entry)
                went = f"{self.files:,} file{'' if self.files == 1 else 's'} removed, {in_words(self.freed)} freed"
                self._tell(f"{self._name}: {went}", self.files, files)
            if not self._again:
                return
        self._fail("", "a process still writes into it")

    def remove(self, parent: int, name: str, top: int) -> None:
        """The emptied folder itself, where nothing has stayed in it."""
        if self._stay:
            return
        try:
            if file_id(os.stat(name, dir_fd=parent, follow_symlinks=False)) != file_id(os.fstat(top)):
                self._fail("", "it was replaced")
                return
            os.rmdir(name, dir_fd=parent)
        except FileNotFoundError:
            return  # somebody else was faster
        except OSError as error:
            self._fail("", str(error.strerror))

    def _enter(self, path: str) -> bool:
        if path == LAST:
            self._check(True)
        if path in self._protected.found and not self._is_named(path):
            self._spare(path)
            return False
        return True

    def _why_not(self, _path: str, status: os.stat_result) -> str | None:
        return None if file_id(status) in self._folders else "it belongs to another user, or was moved there after the check"

    def _is_named(self, path: str) -> bool:
        return any(path == named or path.startswith(f"{named}/") for named in self._named)

    def _remove(self, entry: FolderEntry) -> None:
        try:
            if entry.is_folder:
                self._remove_folder(entry)
            elif self._is_kept(entry):
                self._spare(entry.path)
            else:
                os.unlink(entry.name, dir_fd=entry.folder)
                self.files += 1
                last = entry.status.st_nlink == 1 and stat.S_ISREG(entry.status.st_mode) and entry.path not in self._held
                self.freed += entry.status.st_blocks * 512 if last else 0
        except FileNotFoundError:
            return  # somebody else was faster
        except OSError as error:
            self._fail(entry.path, str(error.strerror))

    def _remove_folder(self, entry: FolderEntry) -> None:
        if entry.path in self._stay or (entry.path in MARKS and self._keeps_marks):
            self._stays(entry.path)
            return
        try:
            os.rmdir(entry.name, dir_fd=entry.folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self._again = True  # written into since it was read

    def _is_kept(self, entry: FolderEntry) -> bool:
        """Also what has come since it was counted."""
        return self._protected.why_kept(entry.path, entry.status) is not None and not self._is_named(entry.path)

    def _spare(self, path: str) -> None:
        self.kept[path] = None
        self._stays(path)

    def _fail(self, path: str, text: str) -> None:
        self.failed.add(path, text)
        self._stays(path)

    def _stays(self, path: str) -> None:
        while path not in self._stay:
            self._stay.add(path)
            path = os.path.dirname(path)


def _paths_to(path: str) -> Iterator[str]:
    """It, and each folder above it."""
    while path:
        yield path
        path = os.path.dirname(path)


def in_words(size: float) -> str:
    """`3.2 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
