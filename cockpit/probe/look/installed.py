"""Which Ray, Python and training framework a process of Ray's has, read off the files that lie there: nothing of it is executed."""

from __future__ import annotations

import os
import re
from typing import Dict, Mapping, NamedTuple

from .. import trust
from .origin import flag
from .processes import ScannedProcess

MOST_LINKS = 40
MOST_BYTES = 1 << 16
_RAY = re.compile(r'^version = "([^"\n]{1,40})"', re.MULTILINE)
_HEADER = re.compile(r'^#define\s+PY_VERSION\s+"([^"\n]{1,40})"', re.MULTILINE)
_VENV = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)", re.MULTILINE)
_INCLUDE = re.compile(r"python3\.\d+t?$")
_FRAMEWORK = re.compile(r"(openrlhf|verl)-(\d[\w.!+]{0,40}?)(?:-py3[\w.]*)?\.(?:dist|egg)-info$")


def ray_version(process: ScannedProcess) -> str | None:
    """Of the package that its program lies in: `.../ray/core/src/ray/raylet/raylet`."""
    package = _package(process)
    return _match(_RAY, _text(_root(process), f"{package}/_version.py")) if package else None


def _package(process: ScannedProcess) -> str | None:
    package, found, _ = (process.details.argv[0] if process.details.argv else "").rpartition("/core/src/ray/")
    return package if found and package.startswith("/") else None


class Frameworks(NamedTuple):
    """Training frameworks that lie in the same folder as Ray."""

    changed: int
    """When something was installed there last, as the file system says."""
    releases: Mapping[str, str]


def frameworks(process: ScannedProcess, known: Frameworks | None = None) -> Frameworks | None:
    """`known` as long as nothing was installed since; `None` where that folder can't be seen."""
    package = _package(process)
    if package is None:
        return None
    root = _root(process)
    place = root + resolve_links(root, os.path.dirname(package))
    try:
        changed = os.stat(place).st_mtime_ns
        return known if known and known.changed == changed else Frameworks(changed, _releases(os.listdir(place)))
    except OSError:
        return None


def _releases(names: list[str]) -> Dict[str, str]:
    """Where a half removed one lies beside another, neither is believed."""
    found = [(match[1], match[2]) for match in map(_FRAMEWORK.match, names) if match]
    return {name: release for name, release in found if [each for each, _ in found].count(name) == 1}


def python_version(process: ScannedProcess) -> str | None:
    """Of the interpreter of a raylet's workers: the last number of it counts too, so that half of it is not told."""
    command = flag(process.details.argv, "--python_worker_command", "--python-worker-command") or ""
    interpreter = command.split(" ", 1)[0]
    if not interpreter.startswith("/"):
        return None
    root = _root(process)
    real = resolve_links(root, interpreter)
    return _header(root, _prefix(real)) or _match(_VENV, _text(root, f"{_prefix(interpreter)}/pyvenv.cfg"))


def _header(root: str, prefix: str) -> str | None:
    """By its C headers, where there are those of one Python only."""
    try:
        names = [name for name in os.listdir(root + resolve_links(root, f"{prefix}/include")) if _INCLUDE.match(name)]
    except OSError:
        return None
    return _match(_HEADER, _text(root, f"{prefix}/include/{names[0]}/patchlevel.h")) if len(names) == 1 else None


def _prefix(interpreter: str) -> str:
    return os.path.dirname(os.path.dirname(interpreter))


def _root(process: ScannedProcess) -> str:
    """Its files as it sees them itself, in a container too. Where that is not allowed ours are its own, unless it is in another one."""
    root = f"/proc/{process.pid}/root"
    if os.path.isdir(f"{root}/proc") or process.details.apart:
        return root
    return ""


def resolve_links(root: str, path: str) -> str:
    """The same path with links followed as they are meant below that root."""
    parts, done, links = path.split("/")[::-1], "", 0
    while parts:
        part = parts.pop()
        if part in ("", ".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        try:
            link = os.readlink(f"{root}{done}/{part}")
        except OSError:
            done = f"{done}/{part}"
            continue
        links += 1
        if links > MOST_LINKS:
            return path
        done = "" if link.startswith("/") else done
        parts += link.split("/")[::-1]
    return done


def _text(root: str, path: str) -> str:
    """How that file begins; nothing where there is none."""
    try:
        return trust.read_begin(root + resolve_links(root, path), MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _match(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None
