"""Raylets and GCSs that live on this host: what they were started with, and how near they are to limits of files, processes and threads."""

from __future__ import annotations

import os
from typing import Dict, NamedTuple, Tuple

from .installed import Frameworks, frameworks, python_version, ray_version
from .processes import Forest, Identity, ScannedProcess, legible, read_at_once, read_environ
from .tasks import TaskLimit, task_limits

ROLES = ("raylet", "gcs_server")


class Started(NamedTuple):
    """What stays the same while it lives."""

    ray: str | None = None
    python: str | None = None
    visible: str | None = None
    """Its CUDA_VISIBLE_DEVICES."""


class RayService(NamedTuple):
    """What is known of one of them beside what its row in the process table says."""

    started: Started = Started()
    files: int | None = None
    files_limit: int | None = None
    """The soft one, which `prlimit` changes while it lives."""
    frameworks: Frameworks | None = None
    tasks: Tuple[TaskLimit, ...] | None = None
    """A raylet's."""


class Rays:
    """Looks again and again, and reads what stays only once."""

    def __init__(self) -> None:
        self._known: Dict[Identity, Started] = {}
        self._frameworks: Dict[Identity, Frameworks | None] = {}

    def read(self, forest: Forest) -> Dict[Identity, RayService]:
        """Of one that was too young when it was read everything is read again."""
        there = [process for process in forest.values() if process.alive and process.origin.role in ROLES]
        found = {process.identity: self._known.get(process.identity) or _read_started(process) for process in there}
        self._known = {process.identity: found[process.identity] for process in there if process.details.settled}
        self._frameworks = {process.identity: self._find_installed(process) for process in there}
        return {process.identity: self._service(process, found[process.identity], forest) for process in there}

    def _service(self, process: ScannedProcess, started: Started, forest: Forest) -> RayService:
        limits = _limits(process.pid)
        tasks = task_limits(process, forest, limits.get("Max processes")) if process.origin.role == "raylet" else None
        files = _open_files(process.pid), limits.get("Max open files")
        return RayService(started, *files, self._frameworks[process.identity], tasks)

    def _find_installed(self, process: ScannedProcess) -> Frameworks | None:
        """Somebody may install another release while Ray lives; those of raylets matter, which start workers."""
        if process.origin.role != "raylet" or process.details.stuck:
            return None
        return frameworks(process, self._frameworks.get(process.identity))


def _read_started(process: ScannedProcess) -> Started:
    """Nothing of one that is stuck in the kernel: asking for its environment would hang."""
    if process.details.stuck:
        return Started()
    visible = (read_environ(process.pid) or {}).get("CUDA_VISIBLE_DEVICES")
    return Started(ray_version(process), python_version(process), None if visible is None else legible(visible))


def _limits(pid: int) -> Dict[str, int]:
    """The soft ones, without those that are `unlimited`."""
    try:
        lines = read_at_once(f"/proc/{pid}/limits", 4096).decode().splitlines()
    except OSError:
        return {}
    columns = ((line[:25].rstrip(), line[25:].split()) for line in lines)
    return {name: int(words[0]) for name, words in columns if words and words[0].isdigit()}


def _open_files(pid: int) -> int | None:
    """From Linux 6.2 on the folder's size is their number; before that they are counted."""
    try:
        return os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
