"""A job's folder as the package that Ray unpacks on every node: what goes in, what stays out, how large it is.

Packed is what Ray's own client would pack (ray/_private/runtime_env/packaging.py, 2.9 to 2.60): files behind links, as files; empty
folders; nothing that a .gitignore, a .rayignore, the runtime_env's `excludes` or Ray's own list leaves out. Unlike Ray, a nested file of
patterns overrules the one above it, as in git. The name is made of the very bytes that were packed, so that a file that changes meanwhile
can't make a package that differs from its name.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from pathspec import GitIgnoreSpec

from cockpit.config.document import InputError, read
from cockpit.text import clean, explain_os_error, plural, size

MAX_PACKAGE_BYTES = 100 * 2**20
"""Bytes. Ray's dashboard takes only less (DASHBOARD_CLIENT_MAX_SIZE, 2.9 to 2.60); beyond it says 413."""
DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"
"""What newer Rays leave out by themselves, unless RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES says otherwise."""
MAX_NAMES = 5
"""In a sentence."""
_PIECE_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the package: the same content is the same package."""
Hear = Callable[[int, int], None]
"""Files packed, and how many there are."""


class StoppedError(Exception):
    """Nobody waits for the package any more."""


class Found(msgspec.Struct, frozen=True):
    """One file or empty folder to be packed."""

    path: Path
    name: str
    """Within the folder."""
    size: int
    folder: bool = False


class Contents(msgspec.Struct):
    """What would be packed of a folder, and what would not though nobody said so."""

    folder: Path
    found: list[Found] = msgspec.field(default_factory=list)
    skipped: list[str] = msgspec.field(default_factory=list)
    """Sentences: what can't be packed, and why."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(each.size for each in self.found)

    @property
    def files(self) -> int:
        """How many."""
        return sum(not each.folder for each in self.found)

    @property
    def largest(self) -> list[Found]:
        """The files that make it large."""
        return sorted((each for each in self.found if each.size), key=lambda each: (-each.size, each.name))[:MAX_NAMES]


class Package(msgspec.Struct, frozen=True):
    """A packed folder; its bytes vanish with the process, however that ends."""

    uri: str
    size: int
    contents: Contents
    data: IO[bytes]

    @property
    def name(self) -> str:
        """Of the package, as Ray's dashboard is asked for it."""
        return self.uri.partition("://")[2]

    def pieces(self) -> Iterator[bytes]:
        """All of it, from the start."""
        self.data.seek(0)
        while piece := self.data.read(_PIECE_BYTES):
            yield piece


def pack(contents: Contents, hear: Hear = lambda *_: None, *, stopped: Callable[[], bool] = lambda: False) -> Package:
    """The package. Raises `InputError` when it is too large or the disk is full, and `StoppedError`."""
    if contents.size >= MAX_PACKAGE_BYTES:
        raise InputError(too_large(contents))
    target = tempfile.TemporaryFile(prefix="cockpit-")  # noqa: SIM115 it lives as long as its package
    try:
        digest = _write_archive(contents, target, hear, stopped)
        length = target.seek(0, os.SEEK_END)
    except OSError as error:
        target.close()
        raise InputError(f"{contents.folder} can't be packed in {tempfile.gettempdir()}: {explain_os_error(error)}") from None
    except BaseException:
        target.close()
        raise
    if length >= MAX_PACKAGE_BYTES:
        raise InputError(too_large(contents, length))
    return Package(f"gcs://_ray_pkg_{digest}.zip", length, contents, target)


def _write_archive(contents: Contents, target: IO[bytes], hear: Hear, stopped: Callable[[], bool]) -> str:
    digest = hashlib.sha256()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number, found in enumerate(contents.found):
            hear(number, len(contents.found))
            if found.folder:
                _add_folder(archive, found, digest)
            elif trouble := _add(archive, found, digest, stopped):
                contents.skipped.append(f"{found.name} {trouble}")
            if archive.fp is not None and archive.fp.tell() >= MAX_PACKAGE_BYTES:
                raise InputError(too_large(contents, archive.fp.tell()))
    return digest.hexdigest()[:40]


def _add_folder(archive: zipfile.ZipFile, found: Found, digest: Any) -> None:
    entry = zipfile.ZipInfo(f"{found.name}/", _EPOCH)
    entry.external_attr = (stat.S_IFDIR | 0o755) << 16 | 0x10
    archive.writestr(entry, b"")
    digest.update(f"folder {found.name}\0".encode())


def _add(archive: zipfile.ZipFile, found: Found, digest: Any, stopped: Callable[[], bool]) -> str | None:
    """What is wrong with it, if something is. Bytes go into the package and into its name at once."""
    try:
        handle = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe put there meanwhile would wait for ever
    except OSError as error:
        return f"was left out: {explain_os_error(error)}"
    with os.fdopen(handle, "rb") as source:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            return "was left out: it is no longer a file"
        entry = zipfile.ZipInfo(found.name, _EPOCH)
        entry.external_attr = (stat.S_IFREG | stat.S_IMODE(before.st_mode) & 0o777) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        digest.update(f"file {found.name} {before.st_mode & 0o777:o}\0".encode())
        length = _copy(source, archive, entry, digest, stopped)
        digest.update(f"\0{length}\0".encode())
        after = os.fstat(handle)
    changed = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or length != after.st_size
    return "changed while it was packed" if changed else None


def _copy(source: IO[bytes], archive: zipfile.ZipFile, entry: zipfile.ZipInfo, digest: Any, stopped: Callable[[], bool]) -> int:
    length = 0
    with archive.open(entry, "w") as packed:
        while piece := source.read(_PIECE_BYTES):
            if stopped():
                raise StoppedError
            packed.write(piece)
            digest.update(piece)
            length += len(piece)
            if length >= MAX_PACKAGE_BYTES:
                raise InputError(f"{entry.filename} grew beyond {size(MAX_PACKAGE_BYTES)} while it was packed")
    return length


def too_large(contents: Contents, packed: int | None = None) -> str:
    """A no that says what to do."""
    folders: Counter[str] = Counter()
    for found in contents.found:
        folders[found.name.partition("/")[0] + ("/" if "/" in found.name else "")] += found.size
    heaviest = ", ".join(f"{clean(name)} {size(amount)}" for name, amount in folders.most_common(MAX_NAMES) if amount)
    packs = f"{size(packed)} packed" if packed is not None else f"{size(contents.size)} in {plural(contents.files, 'file')}"
    largest = clean(folders.most_common(1)[0][0])
    return (
        f"{contents.folder} is too large to upload: {packs}, but Ray accepts less than {size(MAX_PACKAGE_BYTES)}. Largest: {heaviest}. "
        f"Exclude what the job does not read, by a line such as `/{largest}` in {contents.folder}/.rayignore; "
        "put what it reads on a file system that all nodes share"
    )


def find_contents(
    folder: Path, excludes: Sequence[str] = (), *, env: Mapping[str, str] = os.environ, stopped: Callable[[], bool] = lambda: False
) -> Contents:
    """What is in the folder and not left out, in the order of names; nothing is read but patterns. Raises `InputError`, `StoppedError`."""
    if not os.path.isdir(folder):  # unlike Path's it raises nothing where the way there may not be gone
        raise InputError(f"working_dir {folder}" + (" is not a folder" if os.path.exists(folder) else ": no such folder, or no access"))
    defaults = env.get("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", DEFAULT_EXCLUDES).split(",")
    fixed = GitIgnoreSpec.from_lines([line for line in (*defaults, *excludes) if line.strip()])
    walk = _Walk(Contents(folder), fixed, stopped, git=env.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE") != "1")
    walk.enter(folder, "", (), ())
    return walk.contents


Rules = tuple[tuple[str, GitIgnoreSpec], ...]
"""Patterns by the folder they hold for, the outermost first."""


class _Walk:
    """One way through a folder."""

    def __init__(self, contents: Contents, fixed: GitIgnoreSpec, stopped: Callable[[], bool], *, git: bool) -> None:
        self.contents, self._fixed, self._stopped = contents, fixed, stopped
        self._kinds = (".gitignore", ".rayignore") if git else (".rayignore",)

    def enter(self, folder: Path, name: str, above: tuple[tuple[int, int], ...], rules: tuple[tuple[str, Rules], ...]) -> None:
        """Everything in this folder; `above` are the folders it lies in, which a link may lead back to."""
        if self._stopped():
            raise StoppedError
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._skip(name, explain_os_error(error))
            return
        here = (status.st_dev, status.st_ino)
        if here in above:
            self._skip(name, "it is a link to a folder above it")
            return
        if not entries and name:
            self.contents.found.append(Found(folder, name, 0, folder=True))
        rules = self._rules(folder, name, rules)
        for entry in entries:
            self._take(entry, f"{name}/{entry.name}" if name else entry.name, (*above, here), rules)

    def _take(self, entry: os.DirEntry[str], name: str, above: tuple[tuple[int, int], ...], rules: tuple[tuple[str, Rules], ...]) -> None:
        try:
            status = entry.stat()
        except OSError as error:
            if not self._left_out(name, rules):
                self._skip(name, "it is a broken link" if isinstance(error, FileNotFoundError) else explain_os_error(error))
            return
        folder = stat.S_ISDIR(status.st_mode)
        if self._left_out(f"{name}/" if folder else name, rules):
            return
        if why := _unfit(name, status):
            self._skip(name, why)
        elif folder:
            self.enter(Path(entry.path), name, above, rules)
        elif not os.access(entry.path, os.R_OK):
            self._skip(name, "no permission to read it")
        else:
            self.contents.found.append(Found(Path(entry.path), name, status.st_size))

    def _rules(self, folder: Path, name: str, rules: tuple[tuple[str, Rules], ...]) -> tuple[tuple[str, Rules], ...]:
        """Those from above, and those of this folder."""
        known = dict(rules)
        for kind in self._kinds:
            file = folder / kind
            if not os.path.isfile(file):
                continue
            try:
                spec = GitIgnoreSpec.from_lines(read(file, MAX_PACKAGE_BYTES).decode("utf-8", "surrogateescape").splitlines())
            except (OSError, ValueError) as error:
                raise InputError(f"{file} can't be read: {error}") from None
            known[kind] = (*known.get(kind, ()), (name, spec))
        return tuple(known.items())

    def _left_out(self, name: str, rules: tuple[tuple[str, Rules], ...]) -> bool:
        """By any of them. Among the files of one kind the innermost that says something decides, as in git."""
        if self._fixed.match_file(name):
            return True
        return any(_says(name, of_kind) for _, of_kind in rules)

    def _skip(self, name: str, why: str) -> None:
        self.contents.skipped.append(f"{clean(name) or 'the folder'} is left out: {why}")


def _says(name: str, rules: Rules) -> bool:
    for folder, spec in reversed(rules):
        verdict = spec.check_file(name[len(folder) + 1 :] if folder else name).include
        if verdict is not None:
            return verdict
    return False


def _unfit(name: str, status: os.stat_result) -> str | None:
    """Why Ray could not unpack it."""
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return "it is neither a file nor a folder"
    if "\\" in name:
        return "Ray can't unpack a name with a backslash"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return None


def pack_archive(path: Path) -> Package:
    """A package that somebody has made already. Raises `InputError`."""
    try:
        source = path.open("rb")
        length = os.fstat(source.fileno()).st_size
        if not zipfile.is_zipfile(source):
            raise InputError(f"working_dir {path} is neither a folder nor a zip file")
        if length >= MAX_PACKAGE_BYTES:
            raise InputError(f"working_dir {path} is {size(length)}, but Ray accepts less than {size(MAX_PACKAGE_BYTES)}")
        source.seek(0)
        digest = hashlib.sha256(source.read())
    except OSError as error:
        raise InputError(f"working_dir {path} can't be read: {explain_os_error(error)}") from None
    return Package(f"gcs://_ray_pkg_{digest.hexdigest()[:40]}.zip", length, Contents(path.parent, [Found(path, path.name, length)]), source)
