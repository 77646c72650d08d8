"""Goes through a folder by descriptors: never through a link, onto another file system, or out of a folder that is moved meanwhile.

And which file systems there are, and whether other hosts use them too.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Callable, Dict, Iterator, NamedTuple, Tuple

from ..trust import FOLDER, own_uids
from .proc import read, read_or_nothing

MOST_MOUNTS_BYTES = 1 << 18
"""Of another process's table of mounts: some thousands."""
SHOWN_PATH_CHARS = 256
OTHER_MOUNT = "another file system is mounted there"
"""Why a folder is not entered."""
_ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")
FileId = Tuple[int, int]
"""Device and inode: what a folder is, whatever it is called and by whatever link or mount it is reached."""
LOCAL = frozenset((
    "aufs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuse.fuse-overlayfs", "fuseblk", "hfsplus", "jfs",
    "msdos", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "tmpfs", "ubifs", "vfat", "xfs", "zfs",
))  # fmt: skip
"""File systems that one host alone mounts to write. Any other may be shared: there are more of those than anybody can list."""


class FolderEntry(NamedTuple):
    """One entry of a folder. `folder` is that folder's descriptor, good until the next entry is asked for."""

    folder: int
    name: str
    path: str
    """From the top, without a slash in front."""
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        """A real one, no link to one."""
        return stat.S_ISDIR(self.status.st_mode)


class MovedError(Exception):
    """The folder that is being gone through is not where it was; its text is one sentence."""


class _Level(NamedTuple):
    path: str
    place: FileId
    folders: list[str]
    """Those that are still to be entered."""


class Walk:
    """Every entry below a folder, and a folder after all that lies in it.

    It holds two descriptors at most, however deep the folder is: it goes up again by `..`, and that must be where it came from.
    """

    def __init__(
        self,
        top: int,
        enter: Callable[[str], bool] = lambda _path: True,
        trouble: Callable[[str, str], None] = lambda _path, _text: None,
        last: str = "",
        why_not: Callable[[str, os.stat_result], str | None] = lambda _path, _status: None,
    ) -> None:
        """A folder that `enter` does not want is passed over, like one that can't be entered, of which `trouble` is told why.

        `why_not` is asked of each folder once it is held open: why it is not gone into. Of the folders in the top, `last` comes last.
        """
        self._top, self._enter, self._trouble, self._last, self._why_not = top, enter, trouble, last, why_not
        self._here = -1
        self._path = ""
        self._line: list[_Level] = []
        self._device, self._mount, self._lies = os.fstat(top).st_dev, mount_number(top), current_path(top)

    def __iter__(self) -> Iterator[FolderEntry]:
        """Raises `MovedError`."""
        self._here = os.open(".", FOLDER, dir_fd=self._top)
        try:
            yield from self._read("")
            while self._line:
                level = self._line[-1]
                if level.folders:
                    path = _join(level.path, level.folders.pop())
                    if self._enter(path) and self._descend(path):
                        yield from self._read(path)
                else:
                    self._line.pop()
                    yield from self._ascend(level)
        finally:
            os.close(self._here)

    def check_not_moved(self) -> None:
        """Raises `MovedError` when the folder of the last entry, or one above it, has been moved or renamed."""
        now = current_path(self._here)
        if now is not None and self._lies is not None and now != _join(self._lies, self._path):
            raise MovedError(f"{_join(self._lies, self._path)} was moved or removed by somebody else meanwhile")

    def _read(self, path: str) -> Iterator[FolderEntry]:
        folders: list[str] = []
        self._path = path
        try:
            with os.scandir(self._here) as names:
                for name in (entry.name for entry in names):
                    found = self._entry(path, name)
                    if found is not None and found.is_folder:
                        folders.append(name)
                    elif found is not None:
                        yield found
        except OSError as error:
            self._trouble(path, str(error.strerror))
        folders.sort(key=lambda name: (not path and name == self._last, name), reverse=True)  # the next is taken from the end
        self._line.append(_Level(path, file_id(os.fstat(self._here)), folders))

    def _entry(self, path: str, name: str) -> FolderEntry | None:
        """`None` when it has been removed since."""
        try:
            status = os.stat(name, dir_fd=self._here, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return FolderEntry(self._here, name, _join(path, name), status)

    def _descend(self, path: str) -> bool:
        try:
            child = os.open(os.path.basename(path), FOLDER, dir_fd=self._here)
        except FileNotFoundError:
            return False
        except OSError as error:
            replaced = error.errno in (errno.ELOOP, errno.ENOTDIR)
            self._trouble(path, "it was replaced" if replaced else str(error.strerror))
            return False
        status = os.fstat(child)
        other = status.st_dev != self._device or mount_number(child) != self._mount
        reason = OTHER_MOUNT if other else self._why_not(path, status)
        if reason is not None:
            os.close(child)
            self._trouble(path, reason)
            return False
        os.close(self._here)
        self._here = child
        return True

    def _ascend(self, level: _Level) -> Iterator[FolderEntry]:
        if not self._line:
            return
        above = self._line[-1]
        parent = os.open("..", FOLDER, dir_fd=self._here)
        os.close(self._here)
        self._here, self._path = parent, above.path
        if file_id(os.fstat(parent)) != above.place:
            raise MovedError(f"{_join(self._lies or '', level.path)} was moved by somebody else meanwhile")
        found = self._entry(above.path, os.path.basename(level.path))
        if found is not None and file_id(found.status) == level.place:
            yield found
        elif found is not None:
            self._trouble(level.path, "it was replaced")


def file_id(status: os.stat_result) -> FileId:
    """Of a file or folder."""
    return status.st_dev, status.st_ino


def current_path(descriptor: int) -> str | None:
    """The path by which an open folder can be reached now; `None` when that is too long to be told."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None


def encode_path(path: str) -> str:
    """Fit for JSON: bytes that are no UTF-8 become `\\xff`, and a backslash two, so that `decode_path` finds the way back."""
    return os.fsencode(path.replace("\\", "\\\\")).decode("utf-8", "backslashreplace")


def shown_path(path: str) -> str:
    """The same for people: its end where it is very long."""
    return encode_path(path if len(path) <= SHOWN_PATH_CHARS else f"…{path[-SHOWN_PATH_CHARS:]}")


def decode_path(text: str) -> str:
    """The path that `encode_path` has made this of."""
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else b"\\", os.fsencode(text)))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name


# Mounts


class Mount(NamedTuple):
    """One of those that this process can see."""

    number: int
    point: str
    kind: str
    """The type of its file system, as `nfs4` or `fuse.sshfs`."""
    options: Tuple[str, ...] = ()
    """Of that file system, as `user_id=1000`."""
    source: str = ""
    """What is mounted there, as `server:/export`."""


def mounts() -> Iterator[Mount]:
    """All that this process can see."""
    return _parse_mounts(read("/proc/self/mountinfo"))


def _parse_mounts(table: bytes) -> Iterator[Mount]:
    for line in table.splitlines():
        before, _, after = line.partition(b" - ")
        words = before.split()
        for code, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
            words[4] = words[4].replace(code, byte)
        kind, *source, options = map(os.fsdecode, after.split())
        yield Mount(int(words[0]), os.fsdecode(words[4]), kind, tuple(options.split(",")), source[0] if source else "")


def mount_number(descriptor: int) -> int | None:
    """Of the mount that an open folder lies on: a folder of the same file system may be mounted into another one."""
    lines = read_or_nothing(f"/proc/self/fdinfo/{descriptor}").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("mnt_id:")), None)


def read_mounts(pid: int) -> Tuple[Mount, ...]:
    """Those that another process can see; none where there are very many: its user may have made 100,000 of them."""
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            table = file.read(MOST_MOUNTS_BYTES)
    except OSError:
        return ()
    return () if len(table) == MOST_MOUNTS_BYTES else tuple(_parse_mounts(table))


def mount_kinds(pid: int) -> Dict[int, str]:
    """The same, number and kind."""
    return {mount.number: mount.kind for mount in read_mounts(pid)}


def vouched_mounts() -> Dict[int, str]:
    """The mounts whose word for who owns a file can be believed, those of our own namespace that root or we have made: number and kind.

    Every user can make a mount namespace of his own, and put root's files there wherever he likes; a path such as `/proc/PID/root` leads
    into it. And every user can mount a FUSE file system, which says what he wants.
    """
    makers = {f"user_id={uid}" for uid in own_uids()}
    return {mount.number: mount.kind for mount in mounts() if not mount.kind.startswith("fuse") or makers.intersection(mount.options)}


def mounted_in(path: str) -> str | None:
    """A mount point there or below."""
    return next((mount.point for mount in mounts() if mount.point == path or mount.point.startswith(f"{path}/")), None)


def why_shared(folder: int) -> str | None:
    """Why a process on another host may use that open folder; `None` when none can."""
    number = mount_number(folder)
    kind = next((mount.kind for mount in mounts() if mount.number == number), None)
    if kind is None:
        return "whether other hosts share its file system is unknown"
    return None if kind in LOCAL else f"it lies on a file system that other hosts share ({kind})"
