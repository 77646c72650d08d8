"""What in a session's folder may be dear to somebody: checkpoints, core dumps, and what jobs have written into their working_dir."""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, List, Tuple

from .tree import FolderEntry

UNPACKED_WITHIN_S = 60.0
"""Ray unpacks a working_dir at once, and all its files have that time; what is younger than the oldest by more, a job has written."""
LARGE_BYTES = 1 << 20
"""So large a file in a working_dir is kept, whatever its age: data or weights."""
_FILE = re.compile(
    r"(.*checkpoint.*|.*\.(safetensors|pth?|ckpt|distcp|gguf|onnx|npz|h5)|(pytorch|adapter)_model.*\.bin|global_step.*|core([.-].*\d)?)$",
    re.DOTALL | re.IGNORECASE,
)
_FOLDER = re.compile(r"(.*checkpoints?([-_.]?.*)?|ckpt(s|[-_].*|\d+)?|global_step.*|iter_\d+)$", re.DOTALL | re.IGNORECASE)
_SOURCE = re.compile(r".*\.(py|pyi|pyc|md|rst|txt|sh|ya?ml|toml|html|ipynb|cu|cuh|c|cc|cpp|h|hpp|log)$", re.DOTALL)
_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = re.compile(r"(runtime_resources/working_dir_files/[^/]+)(?:/|$)")


class DearFiles:
    """What was found while a folder is gone through, a folder after all that lies in it."""

    def __init__(self) -> None:
        self.found: Dict[str, None] = {}
        """Files, and folders of which all stays; paths from the top."""
        self._unpacked: Dict[str, float] = {}
        """By package, when it was unpacked."""
        self._waiting: Dict[str, List[Tuple[str, os.stat_result]]] = {}
        """By package, files that may be dear: that is known once its oldest one is."""

    def see(self, entry: FolderEntry) -> None:
        """One entry."""
        package = _package(entry.path)
        if entry.is_folder:
            self._settle(entry.path)
            return
        if package is not None and stat.S_ISREG(entry.status.st_mode):
            self._unpacked[package] = min(entry.status.st_mtime, self._unpacked.get(package, entry.status.st_mtime))
        if _is_worthless(entry.path, entry.status):
            return
        named = _named_dear(entry.path)
        if named is not None:
            self.found[named] = None
        elif package is not None:
            self._waiting.setdefault(package, []).append((entry.path, entry.status))

    def why_kept(self, path: str, status: os.stat_result) -> str | None:
        """Under which path it is kept: also what has come since; `None`: it may go."""
        if _is_worthless(path, status):
            return None
        named, package = _named_dear(path), _package(path)
        if named is not None or package is None:
            return named
        return _together(path, package) if self._is_result(package, status) else None

    def _settle(self, package: str) -> None:
        for path, status in self._waiting.pop(package, ()):
            if self._is_result(package, status):
                self.found[_together(path, package)] = None

    def _is_result(self, package: str, status: os.stat_result) -> bool:
        unpacked = self._unpacked.get(package)
        return unpacked is None or status.st_size >= LARGE_BYTES or status.st_mtime > unpacked + UNPACKED_WITHIN_S


def _package(path: str) -> str | None:
    """The folder of an unpacked working_dir that the path lies in."""
    found = _PACKAGE.match(path)
    return found[1] if found and found[1] != path else None


def _together(path: str, package: str) -> str:
    """The folder that the file lies in, if that is not the working_dir itself."""
    folder = os.path.dirname(path)
    return path if folder == package else folder


def _is_worthless(path: str, status: os.stat_result) -> bool:
    """Source code, what pip has installed, an empty file: dear to nobody here."""
    parts = path.split("/")
    return not status.st_size or not stat.S_ISREG(status.st_mode) or bool(_SOURCE.match(parts[-1])) or not _INSTALLED.isdisjoint(parts)


def _named_dear(path: str) -> str | None:
    """The file, or the highest folder above it that is named like a checkpoint."""
    parts = path.split("/")
    for depth, part in enumerate(parts[:-1], 1):
        if _FOLDER.match(part):
            return "/".join(parts[:depth])
    return path if _FILE.match(parts[-1]) else None
