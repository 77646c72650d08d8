"""What is mounted on this host: what lies below a folder, and whether other hosts see that folder too."""

from __future__ import annotations

import os
from typing import Iterator, NamedTuple

from .processes import read

LOCAL = frozenset((
    "aufs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuse.fuse-overlayfs", "fuseblk", "hfsplus", "jfs",
    "msdos", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "tmpfs", "ubifs", "vfat", "xfs", "zfs",
))  # fmt: skip
"""File systems that one host alone mounts to write. Any other may be shared: there are more of those than anybody can list."""


class Mount(NamedTuple):
    """One of them."""

    number: int
    point: str
    kind: str
    """The type of its file system, as `nfs4` or `fuse.sshfs`."""


def mounts() -> Iterator[Mount]:
    """All that this process can see."""
    for line in read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(b" - ")
        words = before.split()
        yield Mount(int(words[0]), _unescape(words[4]), os.fsdecode(after.split()[0]))


def _unescape(point: bytes) -> str:
    for code, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        point = point.replace(code, byte)
    return os.fsdecode(point)


def mounted_in(path: str) -> str | None:
    """A mount point there or below."""
    return next((mount.point for mount in mounts() if mount.point == path or mount.point.startswith(f"{path}/")), None)


def why_shared(folder: int) -> str | None:
    """Why a process on another host may use that open folder; `None` when none can."""
    kind = _kind(folder)
    if kind is None:
        return "whether other hosts share its file system can't be told"
    return None if kind in LOCAL else f"it lies on a file system that other hosts share ({kind})"


def _kind(folder: int) -> str | None:
    for line in read(f"/proc/self/fdinfo/{folder}").splitlines():
        if line.startswith(b"mnt_id:"):
            number = int(line.split()[1])
            return next((mount.kind for mount in mounts() if mount.number == number), None)
    return None
