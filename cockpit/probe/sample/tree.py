"""Walks through a folder by file descriptors, and reads the mounts of this host.

A walk never follows a link, never enters another file system, and stops when a folder is moved meanwhile.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Callable, Dict, Iterator, NamedTuple, Tuple

from ..trust import FOLDER, own_uids
from .proc import read, read_or_nothing

MAX_MOUNTS_BYTES = 1 << 18
"""Bytes read of another process's mount table: enough for some thousands of mounts."""
SHOWN_PATH_CHARS = 256
OTHER_MOUNT = "another file system is mounted there"
"""The reason for not entering a folder."""
_ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")
FileId = Tuple[int, int]
"""Device and inode: they identify a folder under each of its names, links and mounts."""
LOCAL = frozenset((
    "aufs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuse.fuse-overlayfs", "fuseblk", "hfsplus", "jfs",
    "msdos", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "tmpfs", "ubifs", "vfat", "xfs", "zfs",
))  # fmt: skip
"""File systems that only one host mounts for writing. Each other kind may be shared: no list of shared kinds would be complete."""


class FolderEntry(NamedTuple):
    """One entry of a folder. `folder` is the descriptor of that folder; it is valid until the walk goes on."""

    folder: int
    name: str
    path: str
    """Relative to the top of the walk."""
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        """A folder itself, not a link to one."""
        return stat.S_ISDIR(self.status.st_mode)


class MovedError(Exception):
    """The folder was moved during the walk; the text is one sentence."""


class _Level(NamedTuple):
    path: str
    place: FileId
    folders: list[str]
    """The names of folders that are still to be entered."""


class Walk:
    """Yields each entry below a folder. A folder comes after its contents.

    At most two descriptors are open at any depth: the walk goes up by `..`, and checks that this is the folder it came from.
    """

    def __init__(
        self,
        top: int,
        enter: Callable[[str], bool] = lambda _path: True,
        trouble: Callable[[str, str], None] = lambda _path, _text: None,
        last: str = "",
        why_not: Callable[[str, os.stat_result], str | None] = lambda _path, _status: None,
    ) -> None:
        """`enter(path)`: false skips the folder. `trouble(path, reason)`: called for each folder that can't be entered.

        `why_not(path, status)`: called when the folder is open; a reason that it returns skips the folder.
        `last`: the folder in the top that is walked last.
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
                    if self._enter(path) and self._go_down(path):
                        yield from self._read(path)
                else:
                    self._line.pop()
                    yield from self._go_up(level)
        finally:
            os.close(self._here)

    def check_not_moved(self) -> None:
        """Raises `MovedError` if the folder of the last entry, or a folder above it, has been moved or renamed."""
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
        folders.sort(key=lambda name: (not path and name == self._last, name), reverse=True)  # folders are taken from the end
        self._line.append(_Level(path, file_id(os.fstat(self._here)), folders))

    def _entry(self, path: str, name: str) -> FolderEntry | None:
        """`None` if it has been removed meanwhile."""
        try:
            status = os.stat(name, dir_fd=self._here, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return FolderEntry(self._here, name, _join(path, name), status)

    def _go_down(self, path: str) -> bool:
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

    def _go_up(self, level: _Level) -> Iterator[FolderEntry]:
        """Yields the folder that the walk leaves."""
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
    """Identifies a file or a folder on this host."""
    return status.st_dev, status.st_ino


def current_path(descriptor: int) -> str | None:
    """The path of an open folder now; `None` if it is too long for the kernel to report."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None


def encode_path(path: str) -> str:
    """A path for JSON: bytes that are not UTF-8 become `\\xff`, and a backslash becomes two. `decode_path` reverses this."""
    return os.fsencode(path.replace("\\", "\\\\")).decode("utf-8", "backslashreplace")


def shown_path(path: str) -> str:
    """The encoded path for people: only the end of a very long path."""
    return encode_path(path if len(path) <= SHOWN_PATH_CHARS else f"…{path[-SHOWN_PATH_CHARS:]}")


def decode_path(text: str) -> str:
    """The path that `encode_path` encoded."""
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else b"\\", os.fsencode(text)))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name


# Mounts


class Mount(NamedTuple):
    """One line of a mount table."""

    number: int
    point: str
    kind: str
    """The type of the file system, such as `nfs4` or `fuse.sshfs`."""
    options: Tuple[str, ...] = ()
    """Options of the file system, such as `user_id=1000`."""
    source: str = ""
    """The device or export that is mounted, such as `server:/export`."""


def mounts() -> Iterator[Mount]:
    """The mounts that this process sees."""
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
    """The number of the mount that an open folder is on. One file system may have several mounts, so the device does not identify it."""
    lines = read_or_nothing(f"/proc/self/fdinfo/{descriptor}").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("mnt_id:")), None)


def read_mounts(pid: int) -> Tuple[Mount, ...]:
    """The mounts that another process sees; empty if there are too many, because a user can create 100,000 of them."""
    try:
        table = read(f"/proc/{pid}/mountinfo", MAX_MOUNTS_BYTES)
    except OSError:
        return ()
    return () if len(table) == MAX_MOUNTS_BYTES else tuple(_parse_mounts(table))


def mount_kinds(pid: int) -> Dict[int, str]:
    """Number and file system type of each mount that another process sees."""
    return {mount.number: mount.kind for mount in read_mounts(pid)}


def vouched_mounts() -> Dict[int, str]:
    """Number and file system type of the mounts whose file owners can be trusted: mounts of our namespace that root or we made.

    Each user can create a mount namespace and place root's files anywhere in it; a path such as `/proc/PID/root` leads into it. Each
    user can also mount a FUSE file system, which reports any owner that the user likes.
    """
    makers = {f"user_id={uid}" for uid in own_uids()}
    return {mount.number: mount.kind for mount in mounts() if not mount.kind.startswith("fuse") or makers.intersection(mount.options)}


def mounted_in(path: str) -> str | None:
    """A mount point at this path or below it."""
    return next((mount.point for mount in mounts() if mount.point == path or mount.point.startswith(f"{path}/")), None)


def why_shared(folder: int) -> str | None:
    """The reason why a process on another host may use this open folder; `None` if no other host can."""
    number = mount_number(folder)
    kind = next((mount.kind for mount in mounts() if mount.number == number), None)
    if kind is None:
        return "whether other hosts share its file system is unknown"
    return None if kind in LOCAL else f"it lies on a file system that other hosts share ({kind})"
