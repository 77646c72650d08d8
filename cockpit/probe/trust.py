"""Decides for the whole probe which programs it may run, and which files and users it may trust, on a host that other users share.

An attacker has an account on this host. He can start processes with any name, arguments and environment; he can create files, links, pipes
and sockets; he can rename and remove everything in a folder that he may write to. Ray makes its temp dir and its sessions writable for all.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from typing import Dict, Iterator, List, Mapping, NamedTuple, Tuple

ROOT = 0
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens a folder for reading; a link in its place is an error."""
FOLDER_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""Opens a folder even if we may not read it; links are followed."""
_PLACE = os.O_PATH | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_LINKS = 40
_PTH_BYTES = 1 << 16
_LIBS = ("lib", "lib64", "local/lib")
"""Library folders below a prefix; the last one is Debian's."""
SETS_ID = stat.S_ISUID | stat.S_ISGID
"""A setuid or setgid program runs with the rights of its owner or group, but the user who starts it chooses its name and arguments."""


class TrustError(Exception):
    """A program or file of another user would have been run or read. The text is one sentence with the path and the user."""


# Files


def own_uids() -> Tuple[int, int]:
    """The users that we trust: root, and our own user."""
    return ROOT, os.geteuid()


@contextmanager
def open_fd(path: str, flags: int = FOLDER, folder: int | None = None) -> Iterator[int]:
    """Opens a path and closes its descriptor at the end. Raises `OSError`."""
    handle = os.open(path, flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def open_file(path: str, owners: Tuple[int, ...] | None = None, folder: int | None = None, *, link: int = os.O_NOFOLLOW) -> Iterator[int]:
    """Opens a regular file for reading, even where another user may write. It opens no pipe, no device, and no link at the end of a path.

    `owners`: opens only a file of one of these users that has no other name. `folder`: an open folder that the path starts from.
    `link`: 0 to follow a link of the kernel in /proc. Raises `OSError`.
    """
    with open_fd(path, _PLACE | link, folder) as place:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(2, "it is not a regular file", path)
        if owners is not None and (status.st_uid not in owners or status.st_nlink != 1):
            raise PermissionError(13, "it belongs to another user", path)
        with open_fd(f"/proc/self/fd/{place}", _FILE) as handle:  # exactly the file that was checked
            yield handle


def read_begin(path: str, most_bytes: int, owners: Tuple[int, ...] | None = None, *, link: int = os.O_NOFOLLOW) -> bytes:
    """The first `most_bytes` bytes of a regular file, opened by `open_file`. Raises `OSError`."""
    with open_file(path, owners, link=link) as file:
        return os.pread(file, most_bytes, 0)


def read_end(path: str, most_bytes: int, owners: Tuple[int, ...] | None = None, folder: int | None = None) -> bytes:
    """The last `most_bytes` bytes of a regular file, opened by `open_file`. Raises `OSError`."""
    with open_file(path, owners, folder) as file:
        return os.pread(file, most_bytes, max(0, os.fstat(file).st_size - most_bytes))


def private_folder() -> str | None:
    """A folder that only our user can read and write, created if necessary; `None` if there can be none."""
    uid = os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = ["/run/cockpit"] if uid == ROOT else [f"{runtime}/cockpit"] if runtime else []
    for path in (*places, f"/dev/shm/cockpit-{uid}", f"/tmp/cockpit-{uid}"):  # noqa: S108 checked below
        try:
            if not os.path.lexists(path):
                os.mkdir(path, 0o700)
            status = os.lstat(path)
        except OSError:
            continue
        private = stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & 0o077
        if private and why_changeable(os.path.realpath(os.path.dirname(path)), uid) is None:
            return path
    return None


# Programs


def why_not_run(path: str, uid: int) -> str | None:
    """The reason why this user must not run this program: somebody other than him and root could change it, or it is setuid or setgid.

    Each folder and link on its path counts. `None`: it may be run.
    """
    reason = why_changeable(path, uid)
    if reason is not None:
        return reason
    try:
        status = os.stat(path)
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
        return f"{path} is not a program"
    return f"{path} sets the user or group that it runs as" if status.st_mode & SETS_ID else None


def interpreter(program: str) -> str:
    """The interpreter in the first line of a script, or the program itself if it is no script. Raises `OSError`."""
    first = read_begin(os.path.realpath(program), 4096).split(b"\n", 1)[0]
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else program


def why_not_interpret(program: str) -> str | None:
    """The reason why root must not run a script with its interpreter, or a Python with the modules of its installation."""
    try:
        named = interpreter(program)
    except OSError as error:
        return f"{program}: {(error.strerror or str(error)).lower()}"
    beside = os.path.join(os.path.dirname(program), "python")
    pythons = {named, *([beside] if os.path.lexists(beside) else [])}
    reasons = (why_not_run(python, ROOT) or _why_not_import(python) for python in sorted(pythons))
    return next(filter(None, reasons), None)


def _why_not_import(python: str) -> str | None:
    """The reason why others than root could add or change modules that this Python imports."""
    prefixes = {os.path.dirname(os.path.dirname(path)) for path in (python, os.path.realpath(python))}
    settings = [f"{prefix}/pyvenv.cfg" for prefix in sorted(prefixes) if os.path.lexists(f"{prefix}/pyvenv.cfg")]
    for file in settings:
        # `home` in pyvenv.cfg: the Python whose standard library a virtual environment uses.
        lines = read_begin(os.path.realpath(file), _PTH_BYTES).decode("utf-8", "replace").splitlines()
        pairs = ((name.strip(), value.strip()) for name, _, value in (line.partition("=") for line in lines))
        prefixes.update(os.path.dirname(value) for name, value in pairs if name == "home" and value.startswith("/"))
    found: List[str] = []
    for lib in (f"{prefix}/{lib}" for prefix in sorted(prefixes) for lib in _LIBS):
        with suppress(OSError):
            found += [f"{lib}/{name}" for name in os.listdir(lib) if name.startswith("python3")]
    folders = [path for lib in found for path in (lib, f"{lib}/site-packages", f"{lib}/dist-packages") if os.path.isdir(path)]
    reasons = (why_changeable(folder, ROOT) or _why_entry_changeable(folder) for folder in folders)
    return next(filter(None, (*(why_changeable(file, ROOT) for file in settings), *reasons)), None)


def _why_entry_changeable(folder: str) -> str | None:
    """The reason why others than root could change an entry of the folder: a module, a package, or a file that Python runs at its start."""
    with os.scandir(folder) as entries:
        for entry in entries:
            reason = _why_changeable(entry.path, entry.stat(follow_symlinks=False), ROOT)
            if reason is not None:
                return f"{entry.path} {reason}"
            # A .pth file adds folders to sys.path, as an editable installation does.
            text = read_begin(os.path.realpath(entry.path), _PTH_BYTES).decode("utf-8", "replace") if entry.name.endswith(".pth") else ""
            lines = (line for line in text.splitlines() if line.strip() and not line.startswith(("#", "import ", "import\t")))
            for path in filter(os.path.isdir, (os.path.join(folder, line.strip()) for line in lines)):
                reason = why_changeable(path, ROOT)
                if reason is not None:
                    return f"{entry.path} leads to {path}: {reason}"
    return None


def why_changeable(path: str, uid: int) -> str | None:
    """The reason why others than root and this user could put something else at this path; `None` if nobody else can."""
    if not path.startswith("/"):
        return f"{path} depends on the folder that it is started in"
    try:
        for place, status in walk_path(path):
            reason = _why_changeable(place, status, uid)
            if reason is not None:
                return f"{place} {reason}"
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return None


def why_not_believed(folder: str) -> str | None:
    """The reason why others than root and us could replace this folder. Everybody may write into it, as into Ray's temp dir."""
    *above, (_, status) = walk_path(folder)
    reasons = ((place, _why_changeable(place, passed, os.geteuid())) for place, passed in above)
    found = next((f"{place} {reason}" for place, reason in reasons if reason), None)
    return found or (None if status.st_uid in own_uids() else f"{folder} belongs to {user_name(status.st_uid)}")


def _why_changeable(path: str, status: os.stat_result, uid: int) -> str | None:
    if status.st_uid not in (ROOT, uid):
        return f"belongs to {user_name(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        return None  # in a sticky folder only the owner of an entry can rename it, and each entry is checked itself
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid, status.st_uid):
        return f"can be written by group {status.st_gid}"
    # An access list may give rights to further users and groups; the mode shows their maximum as the rights of its group.
    with suppress(OSError):
        if status.st_mode & stat.S_IWGRP and os.getxattr(path, "system.posix_acl_access", follow_symlinks=False):
            return "can be written by others whom an access list (ACL) names"
    return None


def walk_path(path: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Each folder, link and file on the way to this path, from the root on, with its status."""
    parts: List[str] = path.split("/")[::-1]
    done, links = "", 0
    yield "/", os.lstat("/")
    while parts:
        part = parts.pop()
        if part in ("", ".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        status = os.lstat(f"{done}/{part}")
        yield f"{done}/{part}", status
        if not stat.S_ISLNK(status.st_mode):
            done = f"{done}/{part}"
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(40, "Too many levels of symbolic links")
        target = os.readlink(f"{done}/{part}")
        done = "" if target.startswith("/") else done
        parts += target.split("/")[::-1]


def _is_own_group(gid: int, uid: int) -> bool:
    """Whether only this user is in the group, by /etc/passwd and /etc/group. A group of a directory service never counts as his own."""
    name = next((row[0] for row in _rows("/etc/passwd") if row[2:3] == [str(uid)]), None)
    primary = {row[0] for row in _rows("/etc/passwd") if row[3:4] == [str(gid)]}
    listed = [row[3].split(",") if row[3] else [] for row in _rows("/etc/group") if len(row) > 3 and row[2] == str(gid)]
    return name is not None and len(listed) == 1 and {*primary, *listed[0]} <= {name}


def _rows(path: str) -> List[List[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n").split(":") for line in file]
    except OSError:
        return []


def user_name(uid: int) -> str:
    """The name in /etc/passwd, or else the number. A directory service is not asked, because it may hang."""
    return next((row[0] for row in _rows("/etc/passwd") if row[2:3] == [str(uid)]), f"user {uid}")


# Accounts


class Account(NamedTuple):
    """The user and groups that a program runs as."""

    uid: int
    gid: int
    groups: Tuple[int, ...]

    @property
    def is_ours(self) -> bool:
        """Whether we are this user already."""
        return self.uid == os.geteuid()

    def become(self) -> None:
        """Makes this process run as that user for ever."""
        if not self.is_ours:
            os.setgroups(self.groups)
            os.setgid(self.gid)
            os.setuid(self.uid)


def account_of(pid: int) -> Account:
    """The account of a process. Raises `TrustError` if it has the rights of several users, as a setuid program has."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            text = file.read()  # the whole file: a number cut short would be another group
        lines = dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)
        uids, gids = {*map(int, lines[b"Uid"].split())}, {*map(int, lines[b"Gid"].split())}
        groups = tuple(map(int, lines[b"Groups"].split()))
    except (OSError, KeyError, ValueError) as error:
        raise TrustError(f"the owner of process {pid} can't be read: {error}") from None
    if len(uids) != 1 or len(gids) != 1:
        raise TrustError(f"process {pid} runs with more than one user's rights: it is not a program of Ray")
    return Account(uids.pop(), gids.pop(), groups)


# Environments

KEPT = (
    r"(?:HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|SSL_CERT_(?:FILE|DIR)"
    r"|RAY_(?:AUTH_MODE|AUTH_TOKEN|AUTH_TOKEN_PATH|USE_TLS|TLS_[A-Z_]+|TMPDIR))\Z"
)
"""The variables that a program of Ray needs for its own cluster: its user, language, token and certificates. None of them loads code."""
_LIBRARIES = "LD_LIBRARY_PATH"


def kept_environment(environ: Mapping[str, str], uid: int) -> Dict[str, str]:
    """The environment for a program that this user runs: the kept variables, and the system's own PATH.

    A Python that was built elsewhere may need its library path. For root, only folders that nobody else can write to stay in it.
    """
    kept = {name: value for name, value in environ.items() if re.match(KEPT, name)}
    folders = [folder for folder in environ.get(_LIBRARIES, "").split(":") if folder]
    if uid == ROOT:
        folders = [folder for folder in folders if why_changeable(folder, ROOT) is None]
    return {**kept, "PATH": os.defpath, **({_LIBRARIES: ":".join(folders)} if folders else {})}
