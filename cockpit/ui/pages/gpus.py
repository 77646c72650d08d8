"""Makes sections of GPUs: memory, use, health and idle time of each, who has reserved it and who holds its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from cockpit.findings.stalls import IDLE_CLEAR_PERCENT
from cockpit.model import Gpu, Hold, Node, Process
from cockpit.text import UNKNOWN, age, percent, ratio, size
from cockpit.ui import cells
from cockpit.ui.columns import text_column
from cockpit.ui.marks import EMPTY_BELOW, Tone, bar
from cockpit.ui.section import Cell, Column, PageRow, Section
from cockpit.ui.view import View


class GpuRow(PageRow, frozen=True):
    """A GPU of a node, or a process that holds memory of it."""

    node: Node
    gpu: Gpu
    about: Process | None = None
    """The process, which Enter opens; `None`: the row is the GPU itself."""
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


def gpus_section(key: str, rows: Sequence[GpuRow] | None, *, own_node: bool = False) -> Section[GpuRow]:
    """GPUs of one node, or of all."""

    def held(row: GpuRow) -> int | None:
        return row.hold.memory if row.hold else row.gpu.memory_used

    def label(row: GpuRow, view: View) -> Cell:
        return (("  -" if view.ascii else "  └", "faint"),) if row.about else row.gpu.label

    def used_memory(row: GpuRow, _: View) -> str:
        return size(held(row)) if row.hold else f"{size(held(row))}/{size(row.gpu.memory_total)}"

    def clock(row: GpuRow, _: View) -> Cell:
        return _number(row.gpu.clock, "warn" if row.gpu.slowed else "")

    def temperature(row: GpuRow, _: View) -> Cell:
        value = row.gpu.temperature
        return UNKNOWN if value is None else ((f"{value:.0f}C", "bad" if value >= 90 else "warn" if value >= 83 else ""),)

    def last_xid(row: GpuRow, _: View) -> Cell:
        """The last error of the last day; empty if there was none."""
        if row.gpu.xids:
            return ((str(row.gpu.xids[-1].code), "warn"),)
        return UNKNOWN if row.gpu.xids is None else ""

    def jobs(row: GpuRow, view: View) -> str:
        holders = [row.about] if row.about else [process for process, _ in view.cluster.gpu_holders.get((row.node.key, row.gpu.index), ())]
        return ", ".join(dict.fromkeys(view.job_title(process.job) for process in holders if process.job))

    def search(row: GpuRow) -> str:
        process = f"{row.about.kind} {row.about.pid} {row.about.command}" if row.about else ""
        return f"{row.node.title} {row.gpu.index} {row.gpu.name} {row.gpu.uuid} {process}"

    columns: tuple[Column[GpuRow], ...] = (
        *(() if own_node else (text_column("GPUS", 10, lambda row, view: view.cluster.titles.of_node(row.node), name=True),)),
        Column("GPU", 5, label, sort=lambda row, _: row.gpu.index),
        Column("MEMORY", 10, lambda row, view: bar(ratio(held(row), row.gpu.memory_total), 10, ascii=view.ascii), rank=2),
        Column("USED/ALL", 9, used_memory, sort=lambda row, _: held(row), right=True),
        _of_gpu("UTIL", 4, lambda row, _: percent(row.gpu.utilization), sort=lambda row, _: row.gpu.utilization, right=True),
        _of_gpu("UTIL 2 MIN", 24, lambda row, view: cells.recent_spark(row.node, "gpu", row.gpu.index, 24, view), rank=7),
        _of_gpu("MEM 2 MIN", 24, lambda row, view: cells.recent_spark(row.node, "memory", row.gpu.index, 24, view), rank=11),
        _of_gpu("POWER", 8, lambda row, _: _power(row.gpu), sort=lambda row, _: row.gpu.power, right=True, rank=5),
        _of_gpu("TEMP", 4, temperature, sort=lambda row, _: row.gpu.temperature, right=True, rank=4),
        _of_gpu("ECC", 3, lambda row, _: _number(row.gpu.ecc, "bad" if row.gpu.ecc else ""), right=True, rank=6),
        _of_gpu("XID", 4, last_xid, right=True, rank=8),
        _of_gpu("CLOCK", 5, clock, sort=lambda row, _: row.gpu.clock, right=True, rank=12),
        _of_gpu("PCIE", 10, lambda row, _: _pcie(row.gpu), right=True, rank=10),
        _of_gpu("NVLINK", 6, lambda row, _: _nvlink(row.gpu), right=True, rank=9),
        _of_gpu("IDLE", 7, _idle, right=True, rank=1),
        _of_gpu("RESERVED BY", 16, _reserved_by, rank=1, name=True),
        Column("HELD BY", 18, _held_by, grow=True, name=True),
        Column("JOB", 12, jobs, rank=3, name=True),
    )
    return Section(
        key,
        "GPUS",
        columns,
        rows,
        "none reported" if own_node else "none reported by NVML or by Ray's agent",
        search,
        lambda row, view: cells.is_old(row.node, view) or view.cluster.machine(row.node).gpus_seen is not None,
        total=sum(row.about is None for row in rows or ()) if own_node else None,
        unknown="unknown: no GPU data from NVML or from Ray's agent",
    )


def _of_gpu(title: str, width: int, cell: Callable[[GpuRow, View], Cell], **more: Any) -> Column[GpuRow]:
    """A column that is empty in the rows of processes."""
    return Column(title, width, lambda row, view: cell(row, view) if row.about is None else "", **more)


def _number(value: int | None, tone: Tone) -> Cell:
    return UNKNOWN if value is None else ((str(value), tone),)


def _power(gpu: Gpu) -> Cell:
    if gpu.power is None:
        return UNKNOWN
    capped = gpu.power_limit is not None and gpu.power_default is not None and gpu.power_limit < gpu.power_default
    return ((f"{gpu.power:.0f}" + (f"/{gpu.power_limit:.0f}W" if gpu.power_limit else "W"), "warn" if capped else ""),)


def _pcie(gpu: Gpu) -> Cell:
    """Generation and lanes: `gen5 x16`; `gen5 x8/16`: 8 of 16 lanes. An idle GPU lowers its generation, so that is no warning."""
    links = gpu.links
    if links is None or links.pcie_generation is None or links.pcie_width is None:
        return UNKNOWN
    narrow = links.pcie_width_max is not None and links.pcie_width < links.pcie_width_max
    lanes = f"x{links.pcie_width}/{links.pcie_width_max}" if narrow else f"x{links.pcie_width}"
    return ((f"gen{links.pcie_generation} {lanes}", "warn" if narrow else ""),)


def _nvlink(gpu: Gpu) -> Cell:
    """Active links; `4/18` if some of them are not active."""
    links = gpu.links
    if links is None or links.nvlinks_active is None:
        return "none" if links and links.nvlinks == 0 else UNKNOWN
    if not links.nvlinks or links.nvlinks_active == links.nvlinks:
        return str(links.nvlinks_active) if links.nvlinks else "none"
    return ((f"{links.nvlinks_active}/{links.nvlinks}", "warn" if links.nvlinks_active else ""),)  # cards without a bridge have none active


def _idle(row: GpuRow, view: View) -> Cell:
    """How long the GPU has been idle; `>` when it may be longer."""
    if (row.gpu.utilization or 0) > IDLE_CLEAR_PERCENT:  # in a recorded moment the history may not know yet that it works again
        return ""
    known = view.history.idle_seconds(row.node.key, row.gpu.index)
    if known is None:
        return UNKNOWN
    seconds, at_least = known
    return ((f"{'>' if at_least else ''}{age(seconds)}", "dim"),) if seconds else ""


def _reserved_by(row: GpuRow, view: View) -> Cell:
    """Jobs and groups of the actors that hold the GPU's memory; Ray does not report which GPU it gave to which actor."""
    names = []
    for key in view.index.gpu_reservers(row.node.key, row.gpu.index):
        actor = view.cluster.actors[key.removeprefix("actor:")]
        group = view.index.groups.get(actor.placement_group or "")
        names.append(f"{view.job_title(actor.job)} {group.name if group else ''}".strip())
    if text := ", ".join(dict.fromkeys(names)):
        return text

    # No actor with a reservation holds memory of this GPU.
    not_given = view.index.gpus_not_given.get(row.node.key, ())
    if row.gpu in not_given:
        return (("not given to Ray", "dim"),)
    quantity = row.node.resources.get("GPU")
    if quantity is None or quantity.used is None:
        return UNKNOWN
    gpus = view.cluster.machine(row.node).gpus or ()
    if quantity.used >= len(gpus) - len(not_given):
        return "reserved"

    # It is free if every reservation is found elsewhere: on as many GPUs as are reserved, and no actor on more than it may have.
    reservers = [found for gpu in gpus if (found := view.index.gpu_reservers(row.node.key, gpu.index))]
    allowed = {key: number for found in reservers for key, number in found.items()}
    has_strays = any(number > allowed[key] for key, number in Counter(key for found in reservers for key in found).items())
    return (("free", "ok"),) if len(reservers) >= quantity.used and not has_strays else UNKNOWN


def _held_by(row: GpuRow, view: View) -> Cell:
    """The process of a row; for a GPU its fault, else the owners of the processes that hold its memory."""

    def owner(process: Process) -> str:
        return cells.owner(process, view) or cells.command(process)

    if row.about is not None:
        return (*cells.kind(row.about), (f" {row.about.pid} {owner(row.about)}", ""))
    if row.gpu.fault:
        return ((f"{'x' if view.ascii else '✖'} {row.gpu.fault}", "bad"),)
    holders = [process for process, _ in view.cluster.gpu_holders.get((row.node.key, row.gpu.index), ())]
    names = [f"{cells.OTHER_RAY}: {owner(each)}" if cells.is_of_other_ray(each) else owner(each) for each in holders]
    if text := ", ".join(dict.fromkeys(names)):
        return text
    fill = ratio(row.gpu.memory_used, row.gpu.memory_total)
    if fill is None:
        return UNKNOWN
    return (("none", "dim"),) if fill < EMPTY_BELOW else (("a process cockpit can't see", "warn"),)
