"""Counts and removes the contents of a folder, entry by entry and by descriptors, so that nothing outside of it can be lost.

A name is removed from a folder that is held open, never by a path. Before each removal, the folder must still be at its place: if somebody
moves it out meanwhile, its contents stay, except for the entry that is just being removed. Only names are removed: a file with further
names keeps them.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Callable, Collection, Container, Dict, Iterable, Iterator, List, Set, Tuple

from ..sample.proc import user_name
from ..sample.sizes import ProtectedFiles
from ..sample.tree import FileId, FolderEntry, Walk, file_id
from .host_state import OnProgress, report_seldom

PASSES = 3
"""Walks through a folder into which somebody still writes."""
PROGRESS_INTERVAL_S = 0.2
MAX_PATHS_CHARS = 32 << 20
"""Characters of all paths whose sizes are kept: any user may fill a session's folder."""
MAX_REMARKS = 10
"""Remarks of one kind that are listed."""
LAST = "sockets"
"""The folder of a session whose sockets prove it alive; it is removed last."""
MARKS = ("logs", LAST)
"""The folders by which a session is recognized. They stay, empty, if something else stays that may be removed later."""


class AliveError(Exception):
    """The session is alive and must not be removed any more; the text is the reason."""


class Remarks:
    """Remarks about paths, of which there may be very many: the first few, and the number of the others."""

    def __init__(self) -> None:
        self.first: List[Tuple[str, str]] = []
        """Path and text."""
        self.number = 0
        self._last: str | None = None

    def add(self, path: str, text: str) -> None:
        """Adds a remark about one path."""
        self.number, self._last = self.number + 1, path
        if len(self.first) < MAX_REMARKS:
            self.first.append((path, text))

    def is_last(self, path: str) -> bool:
        """Whether the last remark is about this path."""
        return path == self._last

    def sentences(self, sentence: Callable[[str, str], str]) -> Iterator[str]:
        """A sentence for each of the first remarks, and one for the number of the others."""
        yield from (sentence(path, text) for path, text in self.first)
        if self.number > len(self.first):
            yield f"the same applies to {self.number - len(self.first):,} more"


class Survey:
    """The contents of a folder. `size`: bytes on disk; a file with several names in the folder counts once."""

    def __init__(self, name: str, top: int, on_progress: OnProgress) -> None:
        """Counts the contents of the open folder `top`. Raises `MovedError`, `OSError`."""
        self.files = 0
        self.size = 0
        self.newest = os.fstat(top).st_mtime
        """The time of the last write to anything in it (POSIX time)."""
        self.protected = ProtectedFiles()
        self.folders: Set[FileId] = set()
        """The folders in it that belong to its owner: a removal enters no others."""
        self.foreign = Remarks()
        """Folders of other users, which stay with their contents."""
        self.unread = Remarks()
        """Folders that could not be read, and why."""
        self._sizes: Dict[str, int] = {}
        """By path: the size of each of the first files; a file with several names counts once."""
        owner = os.fstat(top).st_uid

        def why_not(path: str, status: os.stat_result) -> str | None:
            """Everybody can write to Ray's folders, and may move a folder of another user there, so that root removes it."""
            if status.st_uid == owner:
                self.folders.add(file_id(status))
                return None
            reason = f"it belongs to {user_name(status.st_uid)}"
            self.foreign.add(path, reason)
            return reason

        def on_trouble(path: str, text: str) -> None:
            if not self.foreign.is_last(path):
                self.unread.add(path, text)

        report = report_seldom(on_progress, PROGRESS_INTERVAL_S)
        linked: Set[int] = set()
        path_chars = 0
        for entry in Walk(top, trouble=on_trouble, why_not=why_not):
            status = entry.status
            self.newest = max(self.newest, status.st_mtime)
            self.protected.see(entry)
            if not entry.is_folder:
                is_counted = status.st_nlink > 1 and status.st_ino in linked
                if status.st_nlink > 1:
                    linked.add(status.st_ino)
                size = 0 if is_counted else status.st_blocks * 512
                self.files += 1
                self.size += size
                path_chars += len(entry.path)
                if path_chars < MAX_PATHS_CHARS:
                    self._sizes[entry.path] = size
            if self.protected.are_too_many:
                raise OSError(errno.E2BIG, "too many files in it look like checkpoints or results to list them: check the folder yourself")
            report(f"{name}: {self.files:,} file{'' if self.files == 1 else 's'} counted, {in_words(self.size)}")

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        return max(0.0, time.time() - self.newest)

    def count_without(self, kept: Collection[str]) -> Tuple[int | None, int | None]:
        """Number and bytes of all files, except for `kept` files and for files in `kept` folders; `None` if there are too many files."""
        if not kept:
            return self.files, self.size
        if len(self._sizes) < self.files:
            return None, None
        number, total = 0, 0
        for path, size in self._sizes.items():
            above = path
            while above and above not in kept:
                above = os.path.dirname(above)
            if not above:
                number, total = number + 1, total + size
        return number, total


class Removal:
    """Removes the contents of one folder, except for the files that are kept."""

    def __init__(
        self,
        name: str,
        protected: ProtectedFiles,
        named: Iterable[str],
        held: Container[str],
        check: Callable[[bool], None],
        on_progress: OnProgress,
        folders: Container[FileId],
    ) -> None:
        """Protected files stay, unless they or a folder above them are `named`. Files that are `held` open free no space yet.

        `folders`: the only folders that are entered, as a `Survey` found them.
        `check` is called before each entry, and with true before the last folder; it raises `AliveError`.
        """
        self.files = 0
        self.freed = 0
        """Bytes of the files whose last name was removed, and that nobody holds open."""
        self.kept: Dict[str, None] = {}
        self.failed = Remarks()
        """Paths that could not be removed, and why."""
        self._name, self._protected, self._named, self._held, self._check = name, protected, tuple(named), held, check
        self._on_progress = report_seldom(on_progress, PROGRESS_INTERVAL_S)
        self._keeps_marks = any(not self._is_named(path) for path in protected.found)
        self._folders = folders
        self._stay: Set[str] = set()
        self._again = False

    def empty(self, top: int, files: int) -> None:
        """Removes the contents of an open folder. `files`: their number, for the progress.

        Raises `AliveError` or `MovedError`; everything that was removed until then is counted.
        """

        def may_enter(path: str) -> bool:
            if path == LAST:
                self._check(True)
            if path in self._protected.found and not self._is_named(path):
                self._spare(path)
                return False
            return True

        def why_not(_path: str, status: os.stat_result) -> str | None:
            return None if file_id(status) in self._folders else "it belongs to another user, or was moved there after the check"

        for _ in range(PASSES):
            self._again = False
            walk = Walk(top, may_enter, self._fail, LAST, why_not)
            for entry in walk:
                self._check(False)
                walk.check_not_moved()
                self._remove_entry(entry)
                so_far = f"{self.files:,} file{'' if self.files == 1 else 's'} removed, {in_words(self.freed)} freed"
                self._on_progress(f"{self._name}: {so_far}", self.files, files)
            if not self._again:
                return
        self._fail("", "a process still writes into it")

    def remove(self, parent: int, name: str, top: int) -> None:
        """Removes the emptied folder itself, unless something has stayed in it."""
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

    def _is_named(self, path: str) -> bool:
        return any(path == named or path.startswith(f"{named}/") for named in self._named)

    def _remove_entry(self, entry: FolderEntry) -> None:
        try:
            if entry.is_folder and (entry.path in self._stay or (entry.path in MARKS and self._keeps_marks)):
                self._mark_staying(entry.path)
            elif entry.is_folder:
                os.rmdir(entry.name, dir_fd=entry.folder)
            elif self._protected.why_kept(entry.path, entry.status) is not None and not self._is_named(entry.path):
                self._spare(entry.path)  # also a file that is newer than the survey
            else:
                os.unlink(entry.name, dir_fd=entry.folder)
                self.files += 1
                last = entry.status.st_nlink == 1 and stat.S_ISREG(entry.status.st_mode) and entry.path not in self._held
                self.freed += entry.status.st_blocks * 512 if last else 0
        except FileNotFoundError:
            return  # somebody else was faster
        except OSError as error:
            if entry.is_folder and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                self._again = True  # somebody has written into it since it was read
            else:
                self._fail(entry.path, str(error.strerror))

    def _spare(self, path: str) -> None:
        self.kept[path] = None
        self._mark_staying(path)

    def _fail(self, path: str, text: str) -> None:
        self.failed.add(path, text)
        self._mark_staying(path)

    def _mark_staying(self, path: str) -> None:
        """The folders above a path that stays must stay too."""
        while path not in self._stay:
            self._stay.add(path)
            path = os.path.dirname(path)


def in_words(size: float) -> str:
    """A size for people, such as `3.2 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
