"""Makes the page of processes: every GPU holder and every Ray process of the probed hosts, as a list or as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cockpit.model import Process
from cockpit.text import UNKNOWN
from cockpit.ui import cells
from cockpit.ui.columns import age_column, gpu_memory, number_column, process_search, reason_column, text_column
from cockpit.ui.pages.nodes import sessions_section
from cockpit.ui.section import Cell, Column, Page, PageRow, Section
from cockpit.ui.view import View

GPU_MEMORY = "GPU MEM"
BY_GPU_MEMORY = (GPU_MEMORY, False)
"""The order of the table by GPU memory: the greatest first."""
KIND_ORDER = ("orphan", "stale", "unknown", "worker", "child", "driver", "ray", cells.OTHER_RAY, "foreign")


class ProcessRow(PageRow, frozen=True):
    """A process, and its depth in the tree."""

    about: Process
    depth: int = 0

    @property
    def key(self) -> str:
        return self.about.key


class ProcessesPage(Page):
    """Processes, and the sessions on disk."""

    title = "Processes"
    short_title = "Procs"
    switches = frozenset({"tree", "user"})

    def sections(self, view: View) -> Sequence[Section[Any]]:
        processes = view.snapshot.processes
        if processes is not None and self.user is not None:
            processes = tuple(process for process in processes if process.user == self.user)
        rows = None if processes is None else list(tree_rows(processes) if self.tree else map(ProcessRow, sorted(processes, key=_order)))
        title = f"PROCESSES of {self.user}" if self.user else "PROCESSES"
        return (_processes_section(title, rows, view), sessions_section(view.snapshot.sessions))


def _order(process: Process) -> tuple[Any, ...]:
    """Orphan and stale ones first; then holders of GPU memory, the greatest first; then the others by kind."""
    left = KIND_ORDER.index(process.kind) if process.left_over else len(KIND_ORDER)
    return left, not process.gpus, -(process.gpu_memory or 0), _kind_rank(process), process.host, process.pid


def _kind_rank(process: Process) -> int:
    return KIND_ORDER.index(cells.OTHER_RAY if cells.is_of_other_ray(process) else process.kind)


def tree_rows(processes: Sequence[Process]) -> Iterator[ProcessRow]:
    """Parents above their children, host by host; trees with an orphan or stale process come first."""
    known = {(process.host, process.pid) for process in processes}
    children: dict[tuple[str, int], list[Process]] = {}
    roots: list[Process] = []
    for process in processes:
        parent = (process.host, process.parent or 0)
        if parent in known and process.parent != process.pid:
            children.setdefault(parent, []).append(process)
        else:
            roots.append(process)
    roots.sort(key=lambda process: (process.host, process.pid))

    # No recursion, as a fork bomb may be deep. Processes that are their own ancestors hang below no root, so each starts a tree too.
    seen: set[str] = set()
    trees: list[list[ProcessRow]] = []
    for root in (*roots, *processes):
        tree: list[ProcessRow] = []
        waiting = [(root, 0)]
        while waiting:
            process, depth = waiting.pop()
            if process.key in seen:
                continue
            seen.add(process.key)
            tree.append(ProcessRow(process, depth))
            below = sorted(children.get((process.host, process.pid), ()), key=lambda child: -child.pid)
            waiting += [(child, depth + 1) for child in below]
        trees.append(tree)
    for tree in sorted(trees, key=lambda tree: not any(row.about.left_over for row in tree)):
        yield from tree


def _processes_section(title: str, rows: list[ProcessRow] | None, view: View) -> Section[ProcessRow]:
    def state(row: ProcessRow, _: View) -> Cell:
        state = row.about.state or ""
        return ((state, "bad" if state in "DZ" else ""),) if state else UNKNOWN

    def command(row: ProcessRow, view: View) -> Cell:
        if not row.depth:
            return cells.command(row.about)
        return ((" " * (2 * row.depth - 2) + ("\\_ " if view.ascii else "└─ "), "faint"), (cells.command(row.about), ""))

    columns: tuple[Column[ProcessRow], ...] = (
        Column(title, 12, lambda row, _: cells.kind(row.about), sort=lambda row, _: _kind_rank(row.about)),
        text_column("NODE", 10, lambda row, view: cells.place(row.about, view), rank=1, name=True),
        number_column("PID", 7, lambda row, _: row.about.pid, str),
        text_column("USER", 8, lambda row, _: row.about.user or None, rank=5, name=True),
        Column("S", 1, state, rank=6),
        age_column("AGE", 6, lambda row, _: row.about.started, rank=2),
        Column(GPU_MEMORY, 8, lambda row, _: gpu_memory(row.about), sort=lambda row, _: row.about.gpu_memory, right=True),
        Column("GPUS", 6, lambda row, _: cells.gpu_indices(row.about), rank=4),
        number_column("RSS", 6, lambda row, _: row.about.rss, rank=3),
        text_column("OWNER", 12, lambda row, view: cells.owner(row.about, view), rank=1, name=True),
        Column("COMMAND", 20, command, sort=lambda row, _: cells.command(row.about), grow=True),
        reason_column(20, lambda row, _: "; ".join(row.about.why), rank=7),
    )
    unknown = "unknown: no answer from a probe or from Ray yet"
    return Section(
        "processes", title, columns, rows, search=lambda row: f"{process_search(row.about)} {cells.owner(row.about, view)}", unknown=unknown
    )
