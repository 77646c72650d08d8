"""Who descends from whom on a host, and what of a process was only inherited."""

from __future__ import annotations

from typing import Iterable, Set

from .origin import WORKERS
from .processes import Forest, ScannedProcess

ADOPTERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim")
"""Programs that take over children whose parent has died. Whatever else is a living parent has started its child itself."""


class Lineage:
    """The family tree of one scan."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.terminal_servers = self._terminal_servers()
        """Whatever something hangs from that leads a session on a terminal of its own: tmux, screen, sshd, a notebook with a terminal."""

    def parent(self, process: ScannedProcess) -> ScannedProcess | None:
        """`None`: it is gone, or can't be seen."""
        return self.forest.get(process.parent)

    def ancestors(self, process: ScannedProcess, dead: bool = False) -> Iterable[ScannedProcess]:
        """The nearest first; zombies only when `dead`. /proc is not read in one moment, so a loop ends it."""
        passed = {process.pid}
        while process.parent not in passed and process.parent in self.forest:
            process = self.forest[process.parent]
            passed.add(process.pid)
            if dead or process.alive:
                yield process

    def owner(self, process: ScannedProcess) -> ScannedProcess | None:
        """The nearest living ancestor that is a raylet or a worker."""
        return next((other for other in self.ancestors(process) if other.origin.role == "raylet" or other.origin.role in WORKERS), None)

    def raylet(self, process: ScannedProcess) -> ScannedProcess | None:
        """The nearest living ancestor that is a raylet."""
        return next((other for other in self.ancestors(process) if other.origin.role == "raylet"), None)

    def session(self, process: ScannedProcess) -> str | None:
        """The folder of the session that it names, or else its nearest living ancestor that names one."""
        return process.origin.session or next((other.origin.session for other in self.ancestors(process) if other.origin.session), None)

    def is_copy(self, process: ScannedProcess) -> bool:
        """A fork of a part of Ray that has not yet become what it was forked for."""
        parent = self.parent(process)
        return parent is not None and parent.origin.role == process.origin.role and parent.details.argv == process.details.argv

    def is_alone(self, process: ScannedProcess) -> bool:
        """Whether whoever started it is gone."""
        parent = self.parent(process)
        return parent is None or is_adopter(parent)

    def why_on_terminal(self, process: ScannedProcess) -> str | None:
        """Why somebody may sit before it."""
        if process.pid in self.terminal_servers:
            return "it serves a terminal that is in use"
        leader = self.forest.get(process.leader)
        if leader is None or not leader.terminal or not leader.alive or leader.ticks > process.ticks:
            return None
        if leader.pid == process.pid:
            return "it leads a session on a terminal"
        if not leader.origin.readable or has_same_variables(process, leader):
            known = "has the same variables of Ray's" if leader.origin.readable else "can't be read"
            return f"it runs in the session of {leader.name} {leader.pid} on a terminal, which {known}"
        return None

    def _terminal_servers(self) -> Set[int]:
        found: Set[int] = set()
        for process in self.forest.values():
            parent = self.parent(process)
            if process.alive and process.terminal and process.leader == process.pid and parent and parent.terminal != process.terminal:
                found.update(other.pid for other in self.ancestors(process))
        return found


def is_adopter(parent: ScannedProcess) -> bool:
    """Whether it takes over children whose parent has died: the first process of a PID namespace, and who has asked the kernel for it."""
    first = parent.pid == 1 or parent.details.pids[-1:] == (1,)
    return first or parent.name.split(":")[0].strip() in ADOPTERS


def has_same_variables(process: ScannedProcess, other: ScannedProcess) -> bool:
    """What it inherited from that one speaks of that one's past."""
    mine, its = process.origin, other.origin
    return its.from_ray and (mine.raylet, mine.submission) == (its.raylet, its.submission) and mine.worker in (None, its.worker)
