"""Packs a job's folder into the zip file that Ray unpacks on every node.

The package contains the same files as with Ray's own client (ray/_private/runtime_env/packaging.py, 2.9 to 2.60). Links to files are packed
as files. Empty folders are packed. Files that match a .gitignore, a .rayignore, the runtime_env's `excludes` or Ray's own list are left
out. Unlike in Ray, the patterns of an inner folder overrule the patterns of an outer one, as in git. The package's name is a hash of the
packed bytes themselves, so the name stays right if a file changes while it is read.
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
"""Ray's dashboard accepts only smaller packages (DASHBOARD_CLIENT_MAX_SIZE, 2.9 to 2.60); it refuses others with status 413."""
DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"
"""The patterns that newer versions of Ray exclude by default; RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES replaces them."""
MAX_NAMES = 5
"""Largest files or folders in a sentence."""
_PIECE_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the package, so that equal content gives an equal package."""
OnPacked = Callable[[int, int], None]
"""Called with the number of packed files, and the number of all."""


class StoppedError(Exception):
    """The caller no longer waits for the package."""


class Found(msgspec.Struct, frozen=True):
    """One file or empty folder to be packed."""

    path: Path
    name: str
    """Its path within the folder."""
    size: int
    folder: bool = False


class Contents(msgspec.Struct):
    """The files of a folder that will be packed, and those that can't be."""

    folder: Path
    found: list[Found] = msgspec.field(default_factory=list)
    skipped: list[str] = msgspec.field(default_factory=list)
    """One sentence for each file that can't be packed, with the reason."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(each.size for each in self.found)

    @property
    def files(self) -> int:
        """The number of files, without empty folders."""
        return sum(not each.folder for each in self.found)

    @property
    def largest(self) -> list[Found]:
        """The largest files, the largest first."""
        return sorted((each for each in self.found if each.size), key=lambda each: (-each.size, each.name))[:MAX_NAMES]


class Package(msgspec.Struct, frozen=True):
    """A packed folder. `data` is a file without a name, so its bytes are freed when the process ends, in any way."""

    uri: str
    size: int
    contents: Contents
    data: IO[bytes]

    @property
    def name(self) -> str:
        """The package's name in requests to Ray's dashboard."""
        return self.uri.partition("://")[2]

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes of the package."""
        self.data.seek(0)
        while piece := self.data.read(_PIECE_BYTES):
            yield piece


def pack(contents: Contents, on_packed: OnPacked = lambda *_: None, *, stopped: Callable[[], bool] = lambda: False) -> Package:
    """Pack the files. Raises `InputError` if they are too large or the disk is full, and `StoppedError` once `stopped()` is true."""
    if contents.size >= MAX_PACKAGE_BYTES:
        raise InputError(too_large(contents))
    target = tempfile.TemporaryFile(prefix="cockpit-")  # noqa: SIM115 it lives as long as its package
    try:
        digest = _write_archive(contents, target, on_packed, stopped)
        length = target.seek(0, os.SEEK_END)
    except OSError as error:
        target.close()
        raise InputError(f"{contents.folder} can't be packed in {tempfile.gettempdir()}: {explain_os_error(error)}") from None
    except BaseException:
        target.close()
        raise
    if length >= MAX_PACKAGE_BYTES:
        target.close()
        raise InputError(too_large(contents, length))
    return Package(f"gcs://_ray_pkg_{digest}.zip", length, contents, target)


def _write_archive(contents: Contents, target: IO[bytes], on_packed: OnPacked, stopped: Callable[[], bool]) -> str:
    """Write all files into the zip file `target`. Return the hash of their names, modes and bytes."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number, found in enumerate(contents.found):
            on_packed(number, len(contents.found))
            if found.folder:
                entry = zipfile.ZipInfo(f"{found.name}/", _EPOCH)
                entry.external_attr = (stat.S_IFDIR | 0o755) << 16 | 0x10
                archive.writestr(entry, b"")
                digest.update(f"folder {found.name}\0".encode())
            elif problem := _add_file(archive, found, digest, stopped):
                contents.skipped.append(f"{found.name} {problem}")
            if archive.fp is not None and archive.fp.tell() >= MAX_PACKAGE_BYTES:
                raise InputError(too_large(contents, archive.fp.tell()))
    return digest.hexdigest()[:40]


def _add_file(archive: zipfile.ZipFile, found: Found, digest: Any, stopped: Callable[[], bool]) -> str | None:
    """Add one file to the package and its bytes to the hash. Return the problem with the file, if there is one."""
    try:
        # O_NONBLOCK: if the file has become a pipe meanwhile, opening it would wait for ever.
        handle = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
    """Return why the folder can't be uploaded, and what to exclude."""
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
    """Find the folder's files in the order of their names. Only files of patterns are read. Raises `InputError`, `StoppedError`."""
    if not os.path.isdir(folder):  # unlike Path.is_dir it returns False if a folder above may not be entered
        raise InputError(f"working_dir {folder}" + (" is not a folder" if os.path.exists(folder) else ": no such folder, or no access"))
    defaults = env.get("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", DEFAULT_EXCLUDES).split(",")
    fixed = GitIgnoreSpec.from_lines([line for line in (*defaults, *excludes) if line.strip()])
    walk = _Walk(Contents(folder), fixed, stopped, git=env.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE") != "1")
    walk.enter(folder, "", (), ())
    return walk.contents


Rules = tuple[tuple[str, GitIgnoreSpec], ...]
"""Folders with the patterns that each of them sets, the outermost first."""


class _Walk:
    """One walk through a folder and all folders in it."""

    def __init__(self, contents: Contents, fixed: GitIgnoreSpec, stopped: Callable[[], bool], *, git: bool) -> None:
        self.contents, self._fixed, self._stopped = contents, fixed, stopped
        self._kinds = (".gitignore", ".rayignore") if git else (".rayignore",)

    def enter(self, folder: Path, name: str, above: tuple[tuple[int, int], ...], rules: tuple[tuple[str, Rules], ...]) -> None:
        """Take everything in this folder. `above` has the folders that contain it, because a link may lead back to one of them."""
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

        # The patterns of the folders above, and of this folder.
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
        rules = tuple(known.items())

        for entry in entries:
            self._take(entry, f"{name}/{entry.name}" if name else entry.name, (*above, here), rules)

    def _take(self, entry: os.DirEntry[str], name: str, above: tuple[tuple[int, int], ...], rules: tuple[tuple[str, Rules], ...]) -> None:
        try:
            status = entry.stat()
        except OSError as error:
            if not self._is_excluded(name, rules):
                self._skip(name, "it is a broken link" if isinstance(error, FileNotFoundError) else explain_os_error(error))
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if self._is_excluded(f"{name}/" if is_folder else name, rules):
            return
        if not (stat.S_ISREG(status.st_mode) or is_folder):
            self._skip(name, "it is neither a file nor a folder")
        elif "\\" in name:
            self._skip(name, "Ray can't unpack a name with a backslash")
        elif name.encode("utf-8", "ignore").decode() != name:
            self._skip(name, "its name is not UTF-8")
        elif is_folder:
            self.enter(Path(entry.path), name, above, rules)
        elif not os.access(entry.path, os.R_OK):
            self._skip(name, "no permission to read it")
        else:
            self.contents.found.append(Found(Path(entry.path), name, status.st_size))

    def _is_excluded(self, name: str, rules: tuple[tuple[str, Rules], ...]) -> bool:
        """Return whether any kind of rules excludes the name. Within one kind the innermost matching file decides, as in git."""
        if self._fixed.match_file(name):
            return True
        for _, rules_of_kind in rules:
            for folder, spec in reversed(rules_of_kind):
                is_excluded = spec.check_file(name[len(folder) + 1 :] if folder else name).include
                if is_excluded:
                    return True
                if is_excluded is not None:
                    break
        return False

    def _skip(self, name: str, why: str) -> None:
        self.contents.skipped.append(f"{clean(name) or 'the folder'} is left out: {why}")


def pack_archive(path: Path) -> Package:
    """Return a package of a zip file that the user has made. Raises `InputError`."""
    try:
        source = path.open("rb")
        length = os.fstat(source.fileno()).st_size
        if not zipfile.is_zipfile(source):
            source.close()
            raise InputError(f"working_dir {path} is neither a folder nor a zip file")
        if length >= MAX_PACKAGE_BYTES:
            source.close()
            raise InputError(f"working_dir {path} is {size(length)}, but Ray accepts less than {size(MAX_PACKAGE_BYTES)}")
        source.seek(0)
        digest = hashlib.sha256(source.read())
    except OSError as error:
        raise InputError(f"working_dir {path} can't be read: {explain_os_error(error)}") from None
    return Package(f"gcs://_ray_pkg_{digest.hexdigest()[:40]}.zip", length, Contents(path.parent, [Found(path, path.name, length)]), source)
