"""Every GPU holder and every Ray process of every probed host, as a list or as a tree; orphan and stale ones first, then by GPU memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cockpit.model import Process
from cockpit.text import UNKNOWN, size
from cockpit.ui import cells
from cockpit.ui.pages.nodes import sessions_section
from cockpit.ui.pages.overview import process_search
from cockpit.ui.pages.page import Page
from cockpit.ui.section import MAX_TEXT_LINES, Cell, Column, Section
from cockpit.ui.view import View

GPU_MEMORY = "GPU MEM"
BY_GPU_MEMORY = (GPU_MEMORY, False)
"""How the table is sorted then: the greatest first."""
KIND_ORDER = ("orphan", "stale", "unknown", "worker", "child", "driver", "ray", cells.OTHER_RAY, "foreign")


@dataclass(frozen=True)
class ProcessRow:
    """A process, and where it hangs in the tree."""

    about: Process
    depth: int = 0

    @property
    def key(self) -> str:
        """Its identity."""
        return self.about.key


class ProcessesPage(Page):
    """Processes, and the sessions on disk."""

    title = "Processes"
    short_title = "Procs"
    can_tree = True

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """Processes, then sessions."""
        processes = view.snapshot.processes
        if processes is not None and self.user is not None:
            processes = tuple(process for process in processes if process.user == self.user)
        rows = None if processes is None else list(tree_rows(processes) if self.tree else list_rows(processes))
        title = f"PROCESSES of {self.user}" if self.user else "PROCESSES"
        sessions = view.snapshot.sessions
        return (_section(title, rows, view), sessions_section(None if sessions is None else list(sessions)))


def list_rows(processes: Iterable[Process]) -> Iterator[ProcessRow]:
    """Left-overs first; then whatever holds GPU memory, the greatest first; then the others by kind."""
    return (ProcessRow(process) for process in sorted(processes, key=_order))


def _order(process: Process) -> tuple[Any, ...]:
    left = KIND_ORDER.index(process.kind) if process.left_over else len(KIND_ORDER)
    return left, not process.gpus, -(process.gpu_memory or 0), _place(process), process.host, process.pid


def _place(process: Process) -> int:
    return KIND_ORDER.index(cells.OTHER_RAY if cells.is_of_other_ray(process) else process.kind)


def tree_rows(processes: Iterable[Process]) -> Iterator[ProcessRow]:
    """Parents above their children, host by host; branches with something left over in them first."""
    everything = list(processes)
    known = {(process.host, process.pid) for process in everything}
    children: dict[tuple[str, int], list[Process]] = {}
    roots: list[Process] = []
    for process in everything:
        parent = (process.host, process.parent or 0)
        if parent in known and process.parent != process.pid:
            children.setdefault(parent, []).append(process)
        else:
            roots.append(process)
    roots.sort(key=lambda process: (process.host, process.pid))
    seen: set[str] = set()
    trees = [list(_one_tree(root, children, seen)) for root in (*roots, *everything)]  # of a loop of parents nobody is a root
    for tree in sorted(trees, key=lambda tree: not any(leaf.about.left_over for leaf in tree)):
        yield from tree


def _one_tree(root: Process, children: dict[tuple[str, int], list[Process]], seen: set[str]) -> Iterator[ProcessRow]:
    """Without recursion: a fork bomb may be deep, and a loop of parents must end."""
    waiting = [(root, 0)]
    while waiting:
        process, depth = waiting.pop()
        if process.key in seen:
            continue
        seen.add(process.key)
        yield ProcessRow(process, depth)
        below = sorted(children.get((process.host, process.pid), ()), key=lambda child: -child.pid)
        waiting += [(child, depth + 1) for child in below]


def _section(title: str, rows: list[ProcessRow] | None, view: View) -> Section[ProcessRow]:
    columns: tuple[Column[ProcessRow], ...] = (
        Column(title, 12, lambda leaf, _: cells.kind(leaf.about), sort=lambda leaf, _: _place(leaf.about)),
        Column("NODE", 10, lambda leaf, view: cells.place(leaf.about, view), sort=lambda leaf, view: cells.place(leaf.about, view), rank=1),
        Column("PID", 7, lambda leaf, _: str(leaf.about.pid), sort=lambda leaf, _: leaf.about.pid, right=True),
        Column("USER", 8, lambda leaf, _: leaf.about.user or UNKNOWN, sort=lambda leaf, _: leaf.about.user, rank=5),
        Column("S", 1, _state, rank=6),
        Column(
            "AGE",
            6,
            lambda leaf, view: cells.ago(leaf.about.started, view),
            sort=lambda leaf, view: leaf.about.started and view.now - leaf.about.started,
            right=True,
            rank=2,
        ),
        Column(
            GPU_MEMORY,
            8,
            lambda leaf, _: size(leaf.about.gpu_memory) if leaf.about.gpus else "",
            sort=lambda leaf, _: leaf.about.gpu_memory,
            right=True,
        ),
        Column("GPUS", 6, lambda leaf, _: cells.gpu_indices(leaf.about), rank=4),
        Column("RSS", 6, lambda leaf, _: size(leaf.about.rss), sort=lambda leaf, _: leaf.about.rss, right=True, rank=3),
        Column(
            "OWNER",
            12,
            lambda leaf, view: cells.owner(leaf.about, view),
            sort=lambda leaf, view: cells.owner(leaf.about, view),
            rank=1,
            grow=True,
        ),
        Column("COMMAND", 20, _command, sort=lambda leaf, _: cells.command(leaf.about), grow=True),
        Column("WHY", 20, lambda leaf, _: (("; ".join(leaf.about.why), "dim"),), rank=7, grow=True, fold=MAX_TEXT_LINES),
    )
    nothing = "none" if rows is not None else "not known: no answer from a probe or from Ray yet"
    return Section("processes", title, columns, rows, nothing, lambda leaf: f"{process_search(leaf.about)} {cells.owner(leaf.about, view)}")


def _state(leaf: ProcessRow, _: View) -> Cell:
    state = leaf.about.state or ""
    return ((state, "bad" if state in "DZ" else ""),) if state else UNKNOWN


def _command(leaf: ProcessRow, view: View) -> Cell:
    if not leaf.depth:
        return cells.command(leaf.about)
    return ((" " * (2 * leaf.depth - 2) + ("\\_ " if view.ascii else "└─ "), "faint"), (cells.command(leaf.about), ""))
