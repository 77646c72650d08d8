"""GPUs: how full and how busy each is, for how long it has done nothing, who has reserved it and who holds its memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, overload

from cockpit.findings.stalls import IDLE_CLEAR_PERCENT
from cockpit.model import Actor, ClusterIndex, Gpu, Hold, Node, Process
from cockpit.text import UNKNOWN, age, percent, ratio, size
from cockpit.ui import cells
from cockpit.ui.columns import text_column
from cockpit.ui.marks import EMPTY_BELOW, bar
from cockpit.ui.section import Cell, Column, PageRow, Section
from cockpit.ui.view import View


class GpuRow(PageRow, frozen=True):
    """A GPU of a node, or a process that holds memory of it."""

    node: Node
    gpu: Gpu
    about: Process | None = None
    """What opens on Enter."""
    hold: Hold | None = None

    @property
    def key(self) -> str:
        return f"{self.node.key}:{self.gpu.index}" + (f":{self.about.key}" if self.about else "")


def gpu_rows(node: Node, view: View) -> list[GpuRow]:
    """Each GPU of a node, and below it the processes that hold its memory."""
    rows: list[GpuRow] = []
    for gpu in view.cluster.machine(node).gpus or ():
        rows.append(GpuRow(node, gpu))
        rows += [GpuRow(node, gpu, process, hold) for process, hold in view.cluster.gpu_holders.get((node.key, gpu.index), ())]
    return rows


class GpuRows(Sequence[GpuRow]):
    """The GPUs of all nodes; a row is made when it is drawn, as of thousands few ever are."""

    def __init__(self, nodes: Sequence[Node], index: ClusterIndex) -> None:
        self._nodes = [(node, gpus) for node in nodes if (gpus := index.machine(node).gpus)]
        self._firsts = list(accumulate((len(gpus) for _, gpus in self._nodes), initial=0))

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
        node, gpus = self._nodes[number]
        return GpuRow(node, gpus[at - self._firsts[number]])


def gpus_section(key: str, rows: Sequence[GpuRow] | None, *, own_node: bool = False) -> Section[GpuRow]:
    """GPUs of one node, or of all."""
    columns: tuple[Column[GpuRow], ...] = (
        *(() if own_node else (text_column("GPUS", 10, lambda row, view: view.cluster.titles.of_node(row.node), name=True),)),
        Column("GPU", 5, _label, sort=lambda row, _: row.gpu.index),
        Column("MEMORY", 10, _memory, rank=2),
        Column("USED/ALL", 9, _used_memory, sort=lambda row, _: row.hold.memory if row.hold else row.gpu.memory_used, right=True),
        _of_gpu("UTIL", 4, lambda row, _: percent(row.gpu.utilization), sort=lambda row, _: row.gpu.utilization, right=True),
        _of_gpu("UTIL 2 MIN", 24, lambda row, view: cells.recent_spark(row.node, "gpu", row.gpu.index, 24, view), rank=7),
        _of_gpu("MEM 2 MIN", 24, lambda row, view: cells.recent_spark(row.node, "memory", row.gpu.index, 24, view), rank=11),
        _of_gpu("POWER", 8, _power, sort=lambda row, _: row.gpu.power, right=True, rank=5),
        _of_gpu("TEMP", 4, _temperature, sort=lambda row, _: row.gpu.temperature, right=True, rank=4),
        _of_gpu("ECC", 3, _ecc, right=True, rank=6),
        _of_gpu("XID", 4, _xid, right=True, rank=8),
        _of_gpu("CLOCK", 5, _clock, sort=lambda row, _: row.gpu.clock, right=True, rank=12),
        _of_gpu("PCIE", 10, _pcie, right=True, rank=10),
        _of_gpu("NVLINK", 6, _nvlink, right=True, rank=9),
        _of_gpu("IDLE", 7, _idle, right=True, rank=1),
        _of_gpu("RESERVED BY", 16, _reserved_by, rank=1, name=True),
        Column("HELD BY", 18, _holder_cell, grow=True, name=True),
        Column("JOB", 12, _jobs, rank=3, name=True),
    )
    return Section(
        key,
        "GPUS",
        columns,
        rows,
        "none reported" if own_node else "none reported by NVML or by Ray's agent",
        _search,
        lambda row, view: cells.is_old(row.node, view) or view.cluster.machine(row.node).gpus_seen is not None,
        total=sum(row.about is None for row in rows or ()) if own_node else None,
        unknown="unknown: no GPU data from NVML or from Ray's agent",
    )


def _of_gpu(title: str, width: int, cell: Callable[[GpuRow, View], Cell], **more: Any) -> Column[GpuRow]:
    """Said of a GPU, not of the processes below it."""
    return Column(title, width, lambda row, view: cell(row, view) if row.about is None else "", **more)


def _search(row: GpuRow) -> str:
    process = f"{row.about.kind} {row.about.pid} {row.about.command}" if row.about else ""
    return f"{row.node.title} {row.gpu.index} {row.gpu.name} {row.gpu.uuid} {process}"


def _label(row: GpuRow, view: View) -> Cell:
    return row.gpu.label if row.about is None else (("  -" if view.ascii else "  └", "faint"),)


def _memory(row: GpuRow, view: View) -> Cell:
    return bar(ratio(row.hold.memory if row.hold else row.gpu.memory_used, row.gpu.memory_total), 10, ascii=view.ascii)


def _used_memory(row: GpuRow, _: View) -> str:
    return size(row.hold.memory) if row.hold else f"{size(row.gpu.memory_used)}/{size(row.gpu.memory_total)}"


def _power(row: GpuRow, _: View) -> Cell:
    gpu = row.gpu
    if gpu.power is None:
        return UNKNOWN
    capped = gpu.power_limit is not None and gpu.power_default is not None and gpu.power_limit < gpu.power_default
    return ((f"{gpu.power:.0f}" + (f"/{gpu.power_limit:.0f}W" if gpu.power_limit else "W"), "warn" if capped else ""),)


def _xid(row: GpuRow, _: View) -> Cell:
    """The last of the last day; nothing where there was none."""
    return UNKNOWN if row.gpu.xids is None else ((str(row.gpu.xids[-1].code), "warn"),) if row.gpu.xids else ""


def _clock(row: GpuRow, _: View) -> Cell:
    return UNKNOWN if row.gpu.clock is None else ((str(row.gpu.clock), "warn" if row.gpu.slowed else ""),)


def _pcie(row: GpuRow, _: View) -> Cell:
    """Generation and lanes: `gen5 x16`; `gen5 x8/16`: 8 of 16 lanes. An idle GPU lowers its generation: that is no bad sign."""
    links = row.gpu.links
    if links is None or links.pcie_generation is None or links.pcie_width is None:
        return UNKNOWN
    narrow = links.pcie_width_max is not None and links.pcie_width < links.pcie_width_max
    lanes = f"x{links.pcie_width}/{links.pcie_width_max}" if narrow else f"x{links.pcie_width}"
    return ((f"gen{links.pcie_generation} {lanes}", "warn" if narrow else ""),)


def _nvlink(row: GpuRow, _: View) -> Cell:
    """Active links; of how many where some are not."""
    links = row.gpu.links
    if links is None or links.nvlinks_active is None:
        return "none" if links and links.nvlinks == 0 else UNKNOWN
    if not links.nvlinks or links.nvlinks_active == links.nvlinks:
        return str(links.nvlinks_active) if links.nvlinks else "none"
    return ((f"{links.nvlinks_active}/{links.nvlinks}", "warn" if links.nvlinks_active else ""),)  # cards without a bridge have none active


def _temperature(row: GpuRow, _: View) -> Cell:
    value = row.gpu.temperature
    return UNKNOWN if value is None else ((f"{value:.0f}C", "bad" if value >= 90 else "warn" if value >= 83 else ""),)


def _ecc(row: GpuRow, _: View) -> Cell:
    return UNKNOWN if row.gpu.ecc is None else ((str(row.gpu.ecc), "bad" if row.gpu.ecc else ""),)


def _holder_cell(row: GpuRow, view: View) -> Cell:
    if row.about is not None:
        return (*cells.kind(row.about), (f" {row.about.pid} {_owner(row.about, view)}", ""))
    if row.gpu.fault:
        return ((f"{'x' if view.ascii else '✖'} {row.gpu.fault}", "bad"),)
    held = view.cluster.gpu_holders.get((row.node.key, row.gpu.index), ())
    return ", ".join(dict.fromkeys(_holder(process, view) for process, _ in held)) or _no_holder(row.gpu)


def _owner(process: Process, view: View) -> str:
    return cells.owner(process, view) or cells.command(process)


def _holder(process: Process, view: View) -> str:
    name = _owner(process, view)
    return f"{cells.OTHER_RAY}: {name}" if cells.is_of_other_ray(process) else name


def _jobs(row: GpuRow, view: View) -> str:
    held = [row.about] if row.about else [process for process, _ in view.cluster.gpu_holders.get((row.node.key, row.gpu.index), ())]
    return ", ".join(dict.fromkeys(view.job_title(process.job) for process in held if process.job))


def _idle(row: GpuRow, view: View) -> Cell:
    """For how long it has done nothing; `>` when it may be for longer. The past knows only later that it works again."""
    if (row.gpu.utilization or 0) > IDLE_CLEAR_PERCENT:
        return ""
    known = view.history.idle_seconds(row.node.key, row.gpu.index)
    if known is None:
        return UNKNOWN
    seconds, at_least = known
    return ((f"{'>' if at_least else ''}{age(seconds)}", "dim"),) if seconds else ""


def _reserved_by(row: GpuRow, view: View) -> Cell:
    """Jobs and groups; Ray doesn't tell which GPU it has given to whom, so that it is known of those alone that hold memory of it."""
    reservers = view.index.gpu_reservers(row.node.key, row.gpu.index)
    names = dict.fromkeys(_reservation(view.cluster.actors[key.removeprefix("actor:")], view) for key in reservers)
    if not names and row.gpu in view.index.gpus_not_given.get(row.node.key, ()):
        return (("not given to Ray", "dim"),)
    return ", ".join(names) or _tell_unclaimed(row.node, view)


def _reservation(actor: Actor, view: View) -> str:
    group = view.index.groups.get(actor.placement_group or "")
    return f"{view.job_title(actor.job)} {group.name if group else ''}".strip()


def _tell_unclaimed(node: Node, view: View) -> Cell:
    """A GPU whose memory nobody with a reservation holds: `free` where the node's reservations are all found elsewhere."""
    used = node.resources["GPU"].used if "GPU" in node.resources else None
    if used is None:
        return UNKNOWN
    if used >= len(view.cluster.machine(node).gpus or ()) - len(view.index.gpus_not_given.get(node.key, ())):
        return "reserved"
    return (("free", "ok"),) if _are_found(used, node, view) else UNKNOWN


def _are_found(used: float, node: Node, view: View) -> bool:
    """Whether all reservations are known: as many GPUs as are reserved, and nobody works on more than it may have."""
    places = [reservers for gpu in view.cluster.machine(node).gpus or () if (reservers := view.index.gpu_reservers(node.key, gpu.index))]
    most = {key: number for reservers in places for key, number in reservers.items()}
    strays = any(number > most[key] for key, number in Counter(key for reservers in places for key in reservers).items())
    return len(places) >= used and not strays


def _no_holder(gpu: Gpu) -> Cell:
    fill = ratio(gpu.memory_used, gpu.memory_total)
    if fill is None:
        return UNKNOWN
    return (("none", "dim"),) if fill < EMPTY_BELOW else (("a process cockpit can't see", "warn"),)
