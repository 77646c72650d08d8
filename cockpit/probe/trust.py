"""What may be run, read and believed on a host that other users share: decided here, for everybody in the probe.

An attacker has an account on this host. He can start processes with any name, arguments and environment, make files, links, pipes and
sockets, and rename and remove whatever lies in a folder that he may write to: Ray makes its temp dir and its sessions writable for all.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from typing import Dict, Iterator, List, Mapping, NamedTuple, Tuple

ROOT = 0
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened, so that a link in its place is an error."""
FOLDER_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""A folder that may not be ours to read, and may be reached by a link."""
_PLACE = os.O_PATH | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_LINKS = 40
_PTH_BYTES = 1 << 16
_LIBS = ("lib", "lib64", "local/lib")
"""Below a prefix; the last is Debian's own."""
SETS_ID = stat.S_ISUID | stat.S_ISGID
"""Whoever starts such a program doesn't become who it runs as, yet chooses what it is called."""


class TrustError(Exception):
    """Something of another user's would have been run or read; the text says what and whose, in one sentence."""


# Files


def own_uids() -> Tuple[int, int]:
    """Whom we believe: root, and ourselves."""
    return ROOT, os.geteuid()


@contextmanager
def open_fd(path: str, flags: int = FOLDER, folder: int | None = None) -> Iterator[int]:
    """Its descriptor, which is closed in the end. Raises `OSError`."""
    handle = os.open(path, flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def open_file(path: str, owners: Tuple[int, ...] | None = None, folder: int | None = None, *, link: int = os.O_NOFOLLOW) -> Iterator[int]:
    """A regular file that somebody else may have put there, open for reading: no link as its last part, and no pipe or device is opened.

    `owners`: only a file of one of these, with no other name. `folder`: an open one that the path starts from. `link`: 0 for a link of
    the kernel's own, in /proc. Raises `OSError`.
    """
    with open_fd(path, _PLACE | link, folder) as place:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(2, "it is not a regular file", path)
        if owners is not None and (status.st_uid not in owners or status.st_nlink != 1):
            raise PermissionError(13, "it belongs to another user", path)
        with open_fd(f"/proc/self/fd/{place}", _FILE) as handle:  # exactly what was looked at
            yield handle


def read_begin(path: str, most_bytes: int, owners: Tuple[int, ...] | None = None, *, link: int = os.O_NOFOLLOW) -> bytes:
    """The first so many bytes of such a file. Raises `OSError`."""
    with open_file(path, owners, link=link) as file:
        return os.pread(file, most_bytes, 0)


def read_end(path: str, most_bytes: int, owners: Tuple[int, ...] | None = None, folder: int | None = None) -> bytes:
    """The last so many bytes of such a file. Raises `OSError`."""
    with open_file(path, owners, folder) as file:
        return os.pread(file, most_bytes, max(0, os.fstat(file).st_size - most_bytes))


def private_folder() -> str | None:
    """A folder of ours that nobody else can write to or look into, made where there is none; `None` where there can be none."""
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
    """Why that user should not run this program: somebody else than he and root could change it, or it changes who runs it.

    Every folder and link on the way counts. `None`: it may be run.
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
    """What the first line of a script names; itself, where it is none. Raises `OSError`."""
    first = read_begin(os.path.realpath(program), 4096).split(b"\n", 1)[0]
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else program


def why_not_interpret(program: str) -> str | None:
    """Why root should not run a script by the interpreter that it names, or a Python with the modules that lie beside it."""
    try:
        named = interpreter(program)
    except OSError as error:
        return f"{program}: {(error.strerror or str(error)).lower()}"
    beside = os.path.join(os.path.dirname(program), "python")
    pythons = {named, *([beside] if os.path.lexists(beside) else [])}
    reasons = (why_not_run(python, ROOT) or _why_not_import(python) for python in sorted(pythons))
    return next(filter(None, reasons), None)


def _why_not_import(python: str) -> str | None:
    """Who else than root could put a module where that Python looks for them."""
    prefixes = {os.path.dirname(os.path.dirname(path)) for path in (python, os.path.realpath(python))}
    settings = [f"{prefix}/pyvenv.cfg" for prefix in sorted(prefixes) if os.path.lexists(f"{prefix}/pyvenv.cfg")]
    prefixes.update(os.path.dirname(home) for file in settings for home in _homes(file))
    found = [f"{prefix}/{lib}/{name}" for prefix in sorted(prefixes) for lib in _LIBS for name in _pythons(f"{prefix}/{lib}")]
    folders = [path for lib in found for path in (lib, f"{lib}/site-packages", f"{lib}/dist-packages") if os.path.isdir(path)]
    reasons = (why_changeable(folder, ROOT) or _why_entry_changeable(folder) for folder in folders)
    return next(filter(None, (*(why_changeable(file, ROOT) for file in settings), *reasons)), None)


def _homes(settings: str) -> List[str]:
    """Where the Python lies whose standard library a virtual environment uses."""
    lines = read_begin(os.path.realpath(settings), _PTH_BYTES).decode("utf-8", "replace").splitlines()
    pairs = [line.partition("=") for line in lines]
    return [value.strip() for name, _, value in pairs if name.strip() == "home" and value.strip().startswith("/")]


def _pythons(folder: str) -> List[str]:
    try:
        return [name for name in os.listdir(folder) if name.startswith("python3")]
    except OSError:
        return []


def _why_entry_changeable(folder: str) -> str | None:
    """The same of what lies in the folder: modules, packages, files that Python runs when it starts."""
    with os.scandir(folder) as entries:
        for entry in entries:
            reason = _why_changeable(entry.path, entry.stat(follow_symlinks=False), ROOT)
            if reason is not None:
                return f"{entry.path} {reason}"
            added = _why_path_changeable(folder, entry.path) if entry.name.endswith(".pth") else None
            if added is not None:
                return added
    return None


def _why_path_changeable(folder: str, file: str) -> str | None:
    """The same of folders that a file adds to where Python looks for modules, as an editable installation does."""
    lines = read_begin(os.path.realpath(file), _PTH_BYTES).decode("utf-8", "replace").splitlines()
    paths = (os.path.join(folder, line.strip()) for line in lines if line.strip() and not line.startswith(("#", "import ", "import\t")))
    reasons = ((path, why_changeable(path, ROOT)) for path in paths if os.path.isdir(path))
    return next((f"{file} leads to {path}: {reason}" for path, reason in reasons if reason), None)


def why_changeable(path: str, uid: int) -> str | None:
    """Who else than root and that user could put something else at this path; `None`: nobody."""
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
    """Who else than root and ourselves could put that folder's entries in its place; Ray's own temp dir may be written by everybody."""
    *above, (_, status) = walk_path(folder)
    reasons = ((place, _why_changeable(place, passed, os.geteuid())) for place, passed in above)
    found = next((f"{place} {reason}" for place, reason in reasons if reason), None)
    return found or (None if status.st_uid in own_uids() else f"{folder} belongs to {user_name(status.st_uid)}")


def _why_changeable(path: str, status: os.stat_result, uid: int) -> str | None:
    if status.st_uid not in (ROOT, uid):
        return f"belongs to {user_name(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        return None  # in a sticky folder only its owner renames an entry, and each entry is looked at
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid, status.st_uid):
        return f"can be written by group {status.st_gid}"
    if status.st_mode & stat.S_IWGRP and _has_list(path):
        return "can be written by others whom an access list (ACL) names"
    return None


def _has_list(path: str) -> bool:
    """Whether users and groups beside its own may have rights there; the mode shows the most of these as its group's."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access", follow_symlinks=False))
    except OSError:
        return False


def walk_path(path: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Every folder, link and file that is passed on the way to it, from the root on."""
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
        if links > _MOST_LINKS:
            raise OSError(40, "Too many levels of symbolic links")
        target = os.readlink(f"{done}/{part}")
        done = "" if target.startswith("/") else done
        parts += target.split("/")[::-1]


def _is_own_group(gid: int, uid: int) -> bool:
    """Whether nobody but that user is in the group, as far as this host's own files say: groups of a directory service are others'."""
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
    """By this host's own file, else the number: a directory service may hang."""
    return next((row[0] for row in _rows("/etc/passwd") if row[2:3] == [str(uid)]), f"user {uid}")


# Accounts


class Account(NamedTuple):
    """As whom something is run."""

    uid: int
    gid: int
    groups: Tuple[int, ...]

    @property
    def is_ours(self) -> bool:
        """We are that user already."""
        return self.uid == os.geteuid()

    def become(self) -> None:
        """From now on this process is of that user, for good."""
        if not self.is_ours:
            os.setgroups(self.groups)
            os.setgid(self.gid)
            os.setuid(self.uid)


def account_of(pid: int) -> Account:
    """Of a process that is one user's alone. Raises `TrustError`: a setuid program keeps the user who started it beside its own."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = dict(
                line.split(b":", 1) for line in file.read().splitlines() if b":" in line
            )  # whole: a group cut short is another one
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
"""What a program of Ray's needs to reach its own cluster: who it is, its language, its token and certificates. Never what loads code."""
_LIBRARIES = "LD_LIBRARY_PATH"


def kept_environment(environ: Mapping[str, str], uid: int) -> Dict[str, str]:
    """Of that environment what is kept for a program that this user runs, with the system's own PATH.

    A Python that was built elsewhere may need its library path: root's holds only folders that nobody else can write to.
    """
    kept = {name: value for name, value in environ.items() if re.match(KEPT, name)}
    folders = [folder for folder in environ.get(_LIBRARIES, "").split(":") if folder]
    if uid == ROOT:
        folders = [folder for folder in folders if why_changeable(folder, ROOT) is None]
    return {**kept, "PATH": os.defpath, **({_LIBRARIES: ":".join(folders)} if folders else {})}
