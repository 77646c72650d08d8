"""Makes the page of all nodes, and the page of one node: its GPUs with their processes, and its host's memory by process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cockpit.findings.disks import SHM
from cockpit.findings.fillers import filler_words, list_fillers
from cockpit.findings.memory_trend import SHARED_MEMORY_NAME
from cockpit.model import MemoryUser, Node, Process, Session
from cockpit.model.titles import shorten_command
from cockpit.sources.source import SourceError
from cockpit.text import UNKNOWN, count, percent, size
from cockpit.ui import cells
from cockpit.ui.columns import age_column, number_column, text_column
from cockpit.ui.pages.findings import about_section
from cockpit.ui.pages.gpus import GpuRow, gpu_rows, gpus_section
from cockpit.ui.pages.memory import kill_line_words, memory_rest, share
from cockpit.ui.pages.overview import nodes_section
from cockpit.ui.pages.pods import pod_facts
from cockpit.ui.section import Cell, Column, Page, PageRow, Pairs, Section, facts
from cockpit.ui.view import View

MAX_FILLERS = 5
"""Rows about the files that fill a disk."""
NO_PROBE = "unknown: no probe on this node"


class NodesPage(Page):
    """All nodes, and below them all GPUs."""

    title = "Nodes"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        nodes = view.snapshot.nodes
        gpus = None if nodes is None else [GpuRow(node, gpu) for node in nodes for gpu in view.cluster.machine(node).gpus or ()]
        return (nodes_section(view), gpus_section("gpus", gpus))


class NodePage(Page):
    """One node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._title = node.title
        self.ray_processes: tuple[Process, ...] | None = None
        """Ray's own processes on a node without a probe; `None` until Ray has answered."""
        self.ray_error = ""
        self.asked_at: float | None = None

    async def load_processes(self, processes: Callable[[str], Awaitable[tuple[Process, ...]]], now: float) -> None:
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
        return f"Node {self._title}"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        nodes = view.snapshot.nodes or ()
        node = next((node for node in nodes if node.key == self.node.key), None)
        node = node or next((node for node in nodes if node.host == self.node.host and self.node.id is None), None)
        if node is None:
            return (facts("gone", "NODE", [("gone", f"{self._title} {cells.say_unlisted(view)} by Ray or by a probe.")], view.width),)
        self._title = view.cluster.titles.of_node(node)
        host = view.cluster.host_of(node)
        return (
            facts("node", "NODE", _facts(node, view), view.width),
            *about_section(node.key, view),
            gpus_section("node-gpus", gpu_rows(node, view), own_node=True),
            _memory_section(self, node, view),
            sessions_section(host.sessions if host is not None else None),
        )


def _facts(node: Node, view: View) -> Pairs:
    machine = view.cluster.machine(node)
    state: Cell = ((cells.node_state(node), "ok" if node.state == "ALIVE" else "warn"),)
    if node.state == "DEAD":
        state = ((f"{'x' if view.ascii else '✖'} DEAD", "bad"), (f"  {node.message or 'Ray gave no reason'}", ""))
    yield "state", state
    yield "address", f"{node.host} {node.ip}{'  head' if node.head else ''}"
    yield "node id", node.id or "none: no raylet of this cluster runs here"
    yield from pod_facts(node, view)
    yield "data from", f"{'probe on this node' if node.probed else 'Ray agent'}, {cells.time_since(machine.seen, view)} ago"
    if machine.gpus_seen is not None:
        yield "GPUs", f"not seen for {cells.time_since(machine.gpus_seen, view)}: NVML fails here, and their figures are as old"

    # Ray
    reserved = []
    for name, quantity in sorted(node.resources.items()):
        if ":" not in name:
            write = size if name.endswith("memory") else count
            reserved.append(f"{name} {write(quantity.used)}/{write(quantity.total)}")
    yield "reserved", ", ".join(reserved) or UNKNOWN
    if not_given := view.index.gpus_not_given.get(node.key):
        yield "not given", f"GPU {', '.join(gpu.label for gpu in not_given)}: not given to Ray, so it never hands them out"

    # The machine
    yield "CPU", f"{percent(machine.cpu)} of {machine.cpus if machine.cpus is not None else UNKNOWN}"
    yield "host memory", (*cells.host_memory(node, 24, view), (f" {cells.used_of(machine.memory)}", ""))
    yield "kill line", kill_line_words(machine.memory)
    yield "recent use", cells.recent_spark(node, "host", None, min(90, max(20, view.width - 24)), view)
    yield "object store", cells.used_of(node.object_store)
    yield "shared mem", cells.used_of(machine.shm)
    yield from _fillers(node, SHM, machine.shm.total, view)
    for disk in machine.disks:
        yield "disk", f"{disk.path}  {cells.used_of(disk)}"
        yield from _fillers(node, disk.path, disk.total, view)
    if node.labels:
        yield "labels", ", ".join(f"{name}={value}" for name, value in node.labels.items() if not name.startswith("ray.io/node-id"))


def _fillers(node: Node, path: str, total: int | None, view: View) -> Pairs:
    """The files that fill a nearly full disk, the largest first."""
    host = view.cluster.host_of(node)
    here = view.cluster.processes_by_host.get(host.name, ()) if host is not None else ()
    fillers, whole = list_fillers(view.cluster.machine(node), host, path, total)
    for one in fillers[:MAX_FILLERS]:
        yield "", f"{size(one.size):>5} {filler_words(view.snapshot, here, one)}  {one.path}"
    if whole is False:
        yield "", "      not all of it was counted: there may be more"


class MemoryRow(PageRow, frozen=True):
    """A part of the host's memory: the memory of one process, shared memory, or the rest."""

    name: str
    command: str
    used: int
    user: MemoryUser | None = None
    about: Process | None = None
    """The process, if Ray or a probe lists it; Enter opens it."""

    @property
    def key(self) -> str:
        return f"memory:{self.name}"


def _memory_section(page: NodePage, node: Node, view: View) -> Section[MemoryRow]:
    """Host memory by process: of the whole host if a probe runs there, else of Ray's own processes, as Ray reports them."""
    memory = view.cluster.machine(node).memory
    columns: tuple[Column[MemoryRow], ...] = (
        number_column("HOST MEMORY", 11, lambda row, _: row.used),
        Column("SHARE", 5, lambda row, _: share(row.name, row.used, memory), right=True),
        Column("PID", 8, lambda row, _: row.name if row.user else "", sort=lambda row, _: row.user and row.user.pid, right=True),
        text_column("USER", 8, lambda row, _: (row.user.user or None) if row.user else "", rank=2, name=True),
        Column("KIND", 9, lambda row, _: cells.kind(row.about) if row.about else "", rank=1),
        Column("JOB", 12, lambda row, view: view.job_title(row.about.job) if row.about else "", rank=3, name=True),
        Column("COMMAND", 20, lambda row, _: row.command, grow=True),
    )
    unknown = (view.ago is None and page.ray_error) or NO_PROBE
    is_of_ray = page.ray_processes is not None and not node.probed and view.ago is None
    title = f"HOST MEMORY of Ray processes, {cells.time_since(page.asked_at, view)} ago," if is_of_ray else "HOST MEMORY"
    rows = _memory_rows(page, node, view)
    return Section("node-memory", title, columns, rows, search=lambda row: f"{row.key} {row.user}", unknown=unknown)


def _memory_rows(page: NodePage, node: Node, view: View) -> list[MemoryRow] | None:
    """The private memory of each process. With a probe also shared memory and the rest, so that the rows add up to the total."""
    host = view.cluster.host_of(node)
    if node.probed and host is not None:
        users = list(host.memory_users)
    elif page.ray_processes is not None and view.ago is None:
        users = [MemoryUser(each.pid, each.rss, each.user, cells.command(each)) for each in page.ray_processes if each.rss is not None]
    else:
        return None

    # Several nodes may share the host, and the probe reports all of its processes.
    node_keys = {node.key, *(view.cluster.node_keys_on(host) if node.probed and host else ())}
    processes = {process.pid: process for key in node_keys for process in view.cluster.processes_by_node.get(key, ())}
    rows = [
        MemoryRow(str(user.pid), shorten_command(user.command or UNKNOWN), user.private, user, processes.get(user.pid))
        for user in sorted(users, key=lambda user: -user.private)
    ]
    memory = view.cluster.machine(node).memory
    if node.probed and memory.shared is not None:
        rows.append(MemoryRow("shared", SHARED_MEMORY_NAME, memory.shared))
        rows += [MemoryRow(*rest) for rest in memory_rest(memory, memory.shared + sum(user.private for user in users))]
    return rows


def sessions_section(sessions: Sequence[Session] | None) -> Section[Session]:
    """Ray's session folders on disk."""

    def state(session: Session, _: View) -> Cell:
        return UNKNOWN if session.live is None else (("live", "ok"),) if session.live else (("dead", "warn"),)

    columns: tuple[Column[Session], ...] = (
        Column("SESSIONS", 10, state),
        text_column("HOST", 10, lambda session, view: view.host_title(session.host), rank=1, name=True),
        number_column("SIZE", 6, lambda session, _: session.size),
        age_column("STARTED", 7, lambda session, _: session.started),
        Column("OWNER", 8, lambda session, _: session.owner or UNKNOWN, rank=2, name=True),
        Column("KEEPS", 12, lambda session, _: ((f"{len(session.keeps)} protected", "warn"),) if session.keeps else "", rank=3),
        Column("PATH", 24, lambda session, _: session.path + ("  <- session_latest" if session.latest else ""), grow=True),
    )
    return Section("sessions", "SESSIONS", columns, sessions, search=lambda session: f"{session.path} {session.owner}", unknown=NO_PROBE)
