"""Nodes; and one node: every GPU with its processes, and the host's memory by process."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, overload

from cockpit.model import Gpu, Hold, MemoryUser, Node, Process, Session
from cockpit.sources.source import SourceError
from cockpit.text import UNKNOWN, count, percent, ratio, size
from cockpit.ui import cells
from cockpit.ui.marks import EMPTY_BELOW, bar
from cockpit.ui.pages.findings import about_section
from cockpit.ui.pages.overview import nodes_section
from cockpit.ui.pages.page import Page
from cockpit.ui.section import Cell, Column, Section, facts
from cockpit.ui.view import View


@dataclass(frozen=True)
class GpuRow:
    """A GPU of a node, or a process that holds memory of it."""

    node: Node
    gpu: Gpu
    process: Process | None = None
    hold: Hold | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"{self.node.key}:{self.gpu.index}" + (f":{self.process.key}" if self.process else "")

    @property
    def about(self) -> Process | None:
        """What opens on Enter."""
        return self.process


class NodesPage(Page):
    """All nodes, with everything there is room for."""

    title = "Nodes"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """The nodes, and the GPUs of all of them."""
        return (nodes_section(view), _gpus_section("gpus", None if view.snapshot.nodes is None else _GpuRows(view.snapshot.nodes)))


class NodePage(Page):
    """One node."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.ray_processes: tuple[Process, ...] | None = None
        """Ray's own processes there, where no probe runs; `None` until Ray has answered."""
        self.ray_error = ""
        self.asked_at: float | None = None

    async def ask(self, processes: Callable[[str], Awaitable[tuple[Process, ...]]], now: float) -> None:
        """Ask Ray for its own processes on a node without a probe; expensive for Ray, so only while the page is open."""
        if self.node.id is None or self.node.probed:
            return
        self.asked_at = now
        try:
            self.ray_processes = await processes(self.node.id)
        except SourceError as error:
            self.ray_error = str(error)

    @property
    def heading(self) -> str:
        """Where we are."""
        return f"Node {self.node.title}"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """What is known of it, its GPUs with their processes, host memory by process, and the sessions on its disk."""
        nodes = view.snapshot.nodes or ()
        node = next((node for node in nodes if node.key == self.node.key), None)
        node = node or next((node for node in nodes if node.host == self.node.host and self.node.id is None), None)
        if node is None:
            return (facts("gone", "NODE", [("gone", f"{self.node.title} is no longer listed by Ray or by a probe.")], view.width),)
        return (
            facts("node", "NODE", list(_facts(node, view)), view.width),
            *about_section(node.key, view),
            _gpus_section("node-gpus", _rows(node, view), own_node=True),
            _memory_section(self, node, view),
            _sessions_section(node, view),
        )


def _facts(node: Node, view: View) -> Iterator[tuple[str, Cell]]:
    yield "state", _state(node)
    yield "address", f"{node.host} {node.ip}{'  head' if node.head else ''}"
    yield "node id", node.id or "none: no raylet of this cluster runs here"
    yield "data from", f"{'probe on this host' if node.probed else 'Ray agent'}, {cells.ago(node.seen, view)} ago"
    yield (
        "reserved",
        ", ".join(_resource(name, quantity.used, quantity.total) for name, quantity in node.resources.items() if ":" not in name)
        or UNKNOWN,
    )
    yield "CPU", f"{percent(node.cpu)} of {node.cpus if node.cpus is not None else UNKNOWN}"
    yield "host memory", (*_bar(node, view), (f" {cells.used_of(node.memory.used, node.memory.total)}", ""))
    yield "kill line", _kill_line(node)
    yield "recent use", cells.recent_spark(node, "host", None, min(90, max(20, view.width - 24)), view)
    yield "object store", cells.used_of(node.object_store.used, node.object_store.total)
    yield "shared mem", cells.used_of(node.shm.used, node.shm.total)
    for disk in node.disks:
        yield "disk", f"{disk.path}  {cells.used_of(disk.used, disk.total)}"
    if node.labels:
        yield "labels", ", ".join(f"{name}={value}" for name, value in node.labels.items() if not name.startswith("ray.io/node-id"))


def _resource(name: str, used: float | None, total: float | None) -> str:
    in_words = size if name.endswith("memory") else count
    return f"{name} {in_words(used)}/{in_words(total)}"


def _state(node: Node) -> Cell:
    if node.state == "DEAD":
        return (("✖ DEAD", "bad"), (f"  {node.message or 'Ray gave no reason'}", ""))
    return ((cells.node_state(node), "ok" if node.state == "ALIVE" else "warn"),)


def _bar(node: Node, view: View) -> tuple[Any, ...]:
    cell = cells.host_memory(node, 24, view)
    return ((cell, ""),) if isinstance(cell, str) else cell


def _kill_line(node: Node) -> str:
    return (
        f"{UNKNOWN}  (no probe on this host, or Ray's memory monitor is off)"
        if node.memory.kill_at is None
        else f"Ray kills workers above {size(node.memory.kill_at)}"
    )


def _rows(node: Node, view: View) -> list[GpuRow]:
    rows: list[GpuRow] = []
    for gpu in node.gpus or ():
        rows.append(GpuRow(node, gpu))
        rows += [GpuRow(node, gpu, process, hold) for process, hold in view.index.holders.get((node.key, gpu.index), ())]
    return rows


class _GpuRows(Sequence[GpuRow]):
    """The GPUs of all nodes; a row is made when it is drawn, as of thousands few ever are."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = [node for node in nodes if node.gpus]
        self._firsts = list(accumulate((len(node.gpus or ()) for node in self._nodes), initial=0))

    def __len__(self) -> int:
        return self._firsts[-1]

    @overload
    def __getitem__(self, at: int) -> GpuRow: ...

    @overload
    def __getitem__(self, at: slice) -> list[GpuRow]: ...

    def __getitem__(self, at: int | slice) -> GpuRow | list[GpuRow]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError(at)
        number = bisect_right(self._firsts, at) - 1
        node = self._nodes[number]
        return GpuRow(node, (node.gpus or ())[at - self._firsts[number]])


def _gpus_section(key: str, rows: Sequence[GpuRow] | None, *, own_node: bool = False) -> Section[GpuRow]:
    columns: list[Column[GpuRow]] = [
        Column("GPU", 5, _label, sort=lambda row, _: row.gpu.index),
        Column("MEMORY", 10, _memory, rank=2),
        Column("USED/ALL", 9, _used_memory, sort=lambda row, _: _memory_bytes(row), right=True),
        Column(
            "UTIL",
            4,
            lambda row, _: percent(row.gpu.utilization) if row.process is None else "",
            sort=lambda row, _: row.gpu.utilization,
            right=True,
        ),
        Column("UTIL 2 MIN", 24, lambda row, view: _recent(row, "gpu", view), rank=7),
        Column("MEM 2 MIN", 24, lambda row, view: _recent(row, "memory", view), rank=8),
        Column("POWER", 8, _power, sort=lambda row, _: row.gpu.power, right=True, rank=5),
        Column("TEMP", 4, _temperature, sort=lambda row, _: row.gpu.temperature, right=True, rank=4),
        Column("ECC", 3, _ecc, right=True, rank=6),
        Column("HELD BY", 18, lambda row, view: _holder_cell(row, view), grow=True),
        Column("JOB", 12, _jobs, rank=3),
    ]
    if not own_node:
        columns.insert(0, Column("GPUS", 10, lambda row, _: row.node.title, sort=lambda row, _: row.node.title))
    cause = "no GPU data from NVML or from Ray's agent"
    nothing = f"not known: {cause}" if rows is None else "none known" if own_node else f"none known: {cause}"
    return Section(
        key,
        "GPUS",
        tuple(columns),
        rows,
        nothing,
        _search,
        lambda row, view: cells.is_old(row.node, view),
        total=_count(rows) if own_node else None,
    )


def _count(rows: Sequence[GpuRow] | None) -> int:
    return sum(row.process is None for row in rows or ())


def _search(row: GpuRow) -> str:
    process = f"{row.process.kind} {row.process.pid} {row.process.command}" if row.process else ""
    return f"{row.node.title} {row.gpu.index} {row.gpu.name} {row.gpu.uuid} {process}"


def _label(row: GpuRow, view: View) -> Cell:
    if row.process is None:
        return row.gpu.label
    return (("  -" if view.ascii else "  └", "faint"),)


def _memory(row: GpuRow, view: View) -> Cell:
    if row.process is not None:
        return bar(ratio(row.hold.memory if row.hold else None, row.gpu.memory_total), 10, ascii=view.ascii)
    return bar(ratio(row.gpu.memory_used, row.gpu.memory_total), 10, ascii=view.ascii)


def _used_memory(row: GpuRow, _: View) -> str:
    return size(row.hold.memory) if row.hold else cells.used_of(row.gpu.memory_used, row.gpu.memory_total)


def _memory_bytes(row: GpuRow) -> int | None:
    return row.hold.memory if row.hold else row.gpu.memory_used


def _recent(row: GpuRow, what: str, view: View) -> Cell:
    return "" if row.process else cells.recent_spark(row.node, what, row.gpu.index, 24, view)


def _power(row: GpuRow, _: View) -> str:
    if row.process is not None:
        return ""
    return UNKNOWN if row.gpu.power is None else f"{row.gpu.power:.0f}" + (f"/{row.gpu.power_limit:.0f}W" if row.gpu.power_limit else "W")


def _temperature(row: GpuRow, _: View) -> Cell:
    value = row.gpu.temperature
    if row.process is not None:
        return ""
    return UNKNOWN if value is None else ((f"{value:.0f}C", "bad" if value >= 90 else "warn" if value >= 83 else ""),)


def _ecc(row: GpuRow, _: View) -> Cell:
    if row.process is not None:
        return ""
    return UNKNOWN if row.gpu.ecc is None else ((str(row.gpu.ecc), "bad" if row.gpu.ecc else ""),)


def _holder_cell(row: GpuRow, view: View) -> Cell:
    if row.process is not None:
        name = cells.owner(row.process, view) or cells.command(row.process)
        return (*cells.kind(row.process), (f" {row.process.pid} {name}", ""))
    if row.gpu.fault:
        return ((f"✖ {row.gpu.fault}", "bad"),)
    held = view.index.holders.get((row.node.key, row.gpu.index), ())
    return ", ".join(dict.fromkeys(_holder(process, view) for process, _ in held)) or _no_holder(row.gpu)


def _holder(process: Process, view: View) -> str:
    name = cells.owner(process, view) or cells.command(process)
    return f"{cells.OTHER_RAY}: {name}" if cells.is_of_other_ray(process) else name


def _jobs(row: GpuRow, view: View) -> str:
    held = [row.process] if row.process else [process for process, _ in view.index.holders.get((row.node.key, row.gpu.index), ())]
    return ", ".join(dict.fromkeys(view.job_title(process.job) for process in held if process.job))


def _no_holder(gpu: Gpu) -> Cell:
    fill = ratio(gpu.memory_used, gpu.memory_total)
    if fill is None:
        return UNKNOWN
    return (("none", "dim"),) if fill < EMPTY_BELOW else (("a process cockpit can't see", "warn"),)


def _memory_section(page: NodePage, node: Node, view: View) -> Section[MemoryRow]:
    """Host memory by process: all of the host's where a probe looks, else Ray's own as Ray tells."""
    columns: tuple[Column[MemoryRow], ...] = (
        Column("HOST MEMORY", 11, lambda row, _: size(row.user.rss), sort=lambda row, _: row.user.rss, right=True),
        Column("SHARE", 5, lambda row, _: cells.share(row.user.rss, node.memory.total, 0.5, 0.9), right=True),
        Column("PID", 8, lambda row, _: str(row.user.pid), sort=lambda row, _: row.user.pid, right=True),
        Column("USER", 8, lambda row, _: row.user.user or UNKNOWN, sort=lambda row, _: row.user.user, rank=2),
        Column("KIND", 9, lambda row, _: cells.kind(row.process) if row.process else "", rank=1),
        Column("JOB", 12, lambda row, view: view.job_title(row.process.job) if row.process else "", rank=3),
        Column("COMMAND", 20, lambda row, _: cells.shorten_command(row.user.command or UNKNOWN), grow=True),
    )
    known = {process.pid: process for process in view.index.processes.get(node.key, ())}
    users = _memory_users(page, node, view)
    rows = None if users is None else [MemoryRow(user, known.get(user.pid)) for user in users]
    nothing = "none" if rows is not None else page.ray_error or "not known: no probe on this host"
    title = (
        "HOST MEMORY"
        if page.ray_processes is None or node.probed
        else f"HOST MEMORY of Ray processes, {cells.ago(page.asked_at, view)} ago,"
    )
    return Section("node-memory", title, columns, rows, nothing, lambda row: f"{row.user.pid} {row.user.user} {row.user.command}")


def _memory_users(page: NodePage, node: Node, view: View) -> list[MemoryUser] | None:
    host = view.index.host_of(node)
    if node.probed and host is not None:
        return list(host.memory_users)
    if page.ray_processes is None:
        return None
    users = (
        MemoryUser(process.pid, process.rss, process.user, cells.command(process))
        for process in page.ray_processes
        if process.rss is not None
    )
    return sorted(users, key=lambda user: -user.rss)


@dataclass(frozen=True)
class MemoryRow:
    """A process that holds much of the host's memory, and what it is to Ray, if anything."""

    user: MemoryUser
    process: Process | None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"memory:{self.user.pid}"

    @property
    def about(self) -> Process | None:
        """What opens on Enter."""
        return self.process


def _sessions_section(node: Node, view: View) -> Section[Session]:
    host = view.index.host_of(node)
    return sessions_section(list(host.sessions) if host is not None and host.sessions is not None else None)


def sessions_section(sessions: list[Session] | None) -> Section[Session]:
    """Ray's folders on disk: live or dead, and what they cost."""
    columns: tuple[Column[Session], ...] = (
        Column("SESSIONS", 10, _session_state),
        Column("HOST", 10, lambda session, _: session.host, sort=lambda session, _: session.host, rank=1),
        Column("SIZE", 6, lambda session, _: size(session.size), sort=lambda session, _: session.size, right=True),
        Column("AGE", 6, lambda session, view: cells.ago(session.started, view), sort=lambda session, _: session.started, right=True),
        Column("OWNER", 8, lambda session, _: session.owner or UNKNOWN, rank=2),
        Column("KEEPS", 12, lambda session, _: ((f"{len(session.keeps)} protected", "warn"),) if session.keeps else "", rank=3),
        Column("PATH", 24, lambda session, _: session.path + ("  <- session_latest" if session.latest else ""), grow=True),
    )
    return Section(
        "sessions",
        "SESSIONS",
        columns,
        sessions,
        "none" if sessions is not None else "not known: no probe on this host",
        lambda session: f"{session.path} {session.owner}",
    )


def _session_state(session: Session, _: View) -> Cell:
    if session.live is None:
        return UNKNOWN
    return (("live", "ok"),) if session.live else (("dead", "warn"),)
