"""Makes the overview: the worst findings, nodes, waiting things, orphans and running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from cockpit.findings.memory_trend import DEFAULT_THRESHOLD
from cockpit.model import Actor, Demand, Job, Node, PlacementGroup, Process, Snapshot
from cockpit.model.titles import shorten_command
from cockpit.monitor.history import STEP_S, STEPS_KEPT
from cockpit.placement import needs_words
from cockpit.report.grouping import Repeats, alike_groups, bundles_words
from cockpit.report.phases import JobPhases, activity_words, phases_by_job
from cockpit.report.snapshot_text import unjudged_words
from cockpit.text import UNKNOWN, age, count, percent, plural, ratio
from cockpit.ui import cells
from cockpit.ui.block import CUTS, fit_text
from cockpit.ui.columns import GPU_MEMORY_COLUMN, PID_COLUMN, age_column, number_column, process_search, reason_column, text_column
from cockpit.ui.marks import spark
from cockpit.ui.pages.findings import worst_section
from cockpit.ui.phase_cells import phase_band
from cockpit.ui.section import MAX_TEXT_LINES, NO_ANSWER, Cell, Column, Page, PageRow, Section
from cockpit.ui.view import View, sum_gpu_memory

MAX_ROWS = 200
"""The overview lists so many waiting things and orphans; other pages list all."""

PHASE_BAND_WIDTH = 140
"""On a terminal of this width the phases of the last hour are shown, in a cell for each minute."""
PHASE_BAND_CELLS = 60
PHASE_CELLS, JOB_COLUMNS_CELLS = (24, 50), 52
"""Cells of a running job's phase in words, at least and at most; and of the columns before it."""
JOB_PAST_WIDTH = 180
"""On a terminal of this width the past of running jobs is shown."""
JOB_PAST_CELLS = 30
NAME_WIDTH, LONGEST_NAME_WIDTH, MARK_WIDTH = 10, 20, 2
"""Cells of the column with a node's name and its mark: usually, at most, and for the mark alone."""


class WaitingRow(PageRow, frozen=True):
    """A waiting group or job, all actors of one class with the same needs, or tasks that no node is large enough for."""

    about: Actor | PlacementGroup | Job | Demand
    what: str
    name: str
    needs: str
    why: str
    drawn_why: str = ""
    """The reason as the page shows it: `see …` if another row shows the same long reason."""

    @property
    def key(self) -> str:
        return f"waiting:{self.about.key}"

    @property
    def job(self) -> str | None:
        """Ray's id of the job; `None`: unknown."""
        return None if isinstance(self.about, Demand) else self.about.job


def _name_width(snapshot: Snapshot) -> int:
    """The width at which all cut node names still look different: another column makes room for it."""
    titles = {node.title + "*" * node.head for node in snapshot.nodes or ()}
    all_differ = any(len({fit_text(title, NAME_WIDTH - MARK_WIDTH, cut=cut) for title in titles}) == len(titles) for cut in CUTS)
    return NAME_WIDTH if all_differ else min(LONGEST_NAME_WIDTH, MARK_WIDTH + max(map(len, titles)))


def node_columns(view: View) -> tuple[Column[Node], ...]:
    """The columns of nodes. On a narrow screen those with the highest rank are left out first."""
    past = 24 if view.width >= 150 else 12
    most = max((len(view.cluster.machine(node).gpus or ()) for node in view.snapshot.nodes or ()), default=8)
    gpus = min(cells.MAX_GPU_CELLS, most) or 4
    not_given = {key: len(gpus) for key, gpus in view.index.gpus_not_given.items() if gpus}

    def mean_utilization(node: Node, view: View) -> float | None:
        return cells.mean_known([gpu.utilization for gpu in view.cluster.machine(node).current_gpus or ()])

    def reserved_gpus(node: Node, _: View) -> float | None:
        quantity = node.resources.get("GPU")
        return quantity.used if quantity else None

    def host_share(node: Node, view: View) -> Cell:
        memory = view.cluster.machine(node).memory
        kill = ratio(memory.kill_at, memory.total) or DEFAULT_THRESHOLD
        return cells.share(memory.used, memory.total, kill - 0.1, kill)

    def host_fraction(node: Node, view: View) -> float | None:
        memory = view.cluster.machine(node).memory
        return ratio(memory.used, memory.total)

    return (
        Column("NODES", view.index.of(_name_width), cells.node_name, sort=lambda node, _: node.title, grow=True, name=True),
        Column("IP", 15, lambda node, _: node.ip or UNKNOWN, sort=lambda node, _: node.ip, rank=9),
        Column("GPU MEM", max(7, gpus), lambda node, view: cells.gpu_cells(view.cluster.machine(node).current_gpus, view, memory=True)),
        _share_column("MEM%", lambda node, view: sum_gpu_memory(view.cluster.machine(node).current_gpus or ()), (0.9, 0.98)),
        Column("UTIL", max(4, gpus), lambda node, view: cells.gpu_cells(view.cluster.machine(node).current_gpus, view, memory=False)),
        number_column("UTL%", 4, mean_utilization, percent),
        Column(f"UTIL {past // 12} MIN", past, lambda node, view: cells.recent_spark(node, "gpu", None, past, view), rank=7),
        Column("RESV", 5, lambda node, _: cells.reservation(node), sort=reserved_gpus, right=True),
        *((number_column("NOT GIVEN", 9, lambda node, _: not_given.get(node.key), count, rank=1),) if not_given else ()),
        Column("CPU", 9, lambda node, _: cells.reservation(node, "CPU"), rank=6, right=True),
        Column("HOST MEM", 8, lambda node, view: cells.host_memory(node, 8, view)),
        Column("HOST", 4, host_share, sort=host_fraction, right=True),
        Column("USED/ALL", 9, lambda node, view: cells.used_of(view.cluster.machine(node).memory), rank=5, right=True),
        Column(f"HOST {past // 12} MIN", past, lambda node, view: cells.recent_spark(node, "host", None, past, view), rank=8),
        _share_column("OBJ", lambda node, _: (node.object_store.used, node.object_store.total), rank=2),
        _share_column("SHM", lambda node, view: (view.cluster.machine(node).shm.used, view.cluster.machine(node).shm.total), rank=3),
        _share_column("DISK", cells.fullest_disk, (0.85, 0.95), rank=1),
        age_column("SEEN", 4, lambda node, view: view.cluster.machine(node).seen),
    )


def _share_column(
    title: str, amounts: Callable[[Node, View], tuple[float | None, float | None]], marks: tuple[float, float] = (0.8, 0.95), rank: int = 0
) -> Column[Node]:
    """The used share of a total. From the first of the `marks` it is drawn as high, from the second as too high."""
    return Column(
        title,
        4,
        lambda node, view: cells.share(*amounts(node, view), *marks),
        sort=lambda node, view: ratio(*amounts(node, view)),
        right=True,
        rank=rank,
    )


def node_search(node: Node) -> str:
    """The text that the filter searches."""
    return f"{node.title} {node.host} {node.ip} {node.id} {cells.node_state(node)} {'head' if node.head else ''}"


def nodes_section(view: View) -> Section[Node]:
    """A row per node: the head, then the other living nodes as Ray lists them, then dead ones."""
    ordered = view.index.of(_living_first)
    return Section("nodes", "NODES", node_columns(view), ordered, search=node_search, is_old=cells.is_old, unknown="unknown yet")


def _living_first(snapshot: Snapshot) -> Sequence[Node] | None:
    return None if snapshot.nodes is None else sorted(snapshot.nodes, key=lambda node: (node.state == "DEAD", not node.head))


def waiting_rows(snapshot: Snapshot) -> Sequence[WaitingRow]:
    """Groups, actors, jobs and tasks that wait. Groups with the same needs, and actors of one class with the same needs, share a row."""
    rows = []
    for groups in alike_groups(snapshot.placement_groups or ()):
        group = min(groups, key=lambda group: group.since or float("inf"))
        more = f" and {len(groups) - 1} more" if len(groups) > 1 else ""
        needs = f"{bundles_words(group)} {group.strategy or ''}".strip()
        rows.append(WaitingRow(group, "group", f"{cells.title(group)}{more}", needs, group.why or ""))

    alike: dict[tuple[Any, ...], list[Actor]] = {}
    for actor in snapshot.actors or ():
        if actor.pending or actor.state == "RESTARTING":
            alike.setdefault((actor.class_, actor.job, cells.actor_needs(actor), actor.state, actor.why), []).append(actor)
    for actors in alike.values():
        actor = min(actors, key=lambda actor: actor.since or float("inf"))
        name = cells.title(actor) if len(actors) == 1 else f"{actor.class_} x {len(actors)}"
        what = "restart" if actor.state == "RESTARTING" else "actor"
        rows.append(WaitingRow(actor, what, name, cells.actor_needs(actor), actor.why or ""))

    jobs = [job for job in snapshot.jobs or () if job.status == "PENDING"]
    rows += [WaitingRow(job, "job", job.id, "", job.message or "") for job in jobs]
    for demand in snapshot.demand or ():
        name, needs = plural(demand.count, "task"), needs_words(demand.needs)
        rows += [WaitingRow(demand, "task", name, needs, demand.why)] if demand.why else []
    return rows


def waits_section(view: View) -> Section[WaitingRow]:
    """Waiting things, the longest wait first; a long reason is shown in full only once."""
    repeats = Repeats()
    lists = {"actors": view.snapshot.actors, "groups": view.snapshot.placement_groups, "jobs": view.snapshot.jobs}
    missing = [name for name, listed in lists.items() if listed is None]
    ordered = sorted(view.index.of(waiting_rows), key=lambda item: cells.waiting_since(item.about) or view.now)
    rows = []
    for item in ordered[:MAX_ROWS]:
        reference = f"group {cells.title(item.about)}" if isinstance(item.about, PlacementGroup) else f"{item.what} {item.name}"
        rows.append(replace(item, drawn_why=repeats.shorten(item.why, reference)))
    columns: tuple[Column[WaitingRow], ...] = (
        Column("WAITS", 8, lambda item, _: ((item.what, "warn"),), sort=lambda item, _: item.what),
        text_column("NAME", 20, lambda item, _: item.name, fold=2, name=True),
        Column("NEEDS", 16, lambda item, _: item.needs or UNKNOWN, grow=True, rank=1, fold=2),
        Column(
            "FOR",
            7,
            lambda item, view: cells.waiting_time(item.about, view),
            sort=lambda item, _: cells.waiting_since(item.about),
            right=True,
        ),
        text_column("JOB", 12, lambda item, view: view.job_title(item.job), rank=2, name=True),
        reason_column(36, lambda item, _: item.drawn_why or UNKNOWN),
    )
    return Section(
        "waits",
        "WAITS",
        columns,
        None if missing and not rows else rows,
        "no actor, group or job waits",
        lambda item: f"{item.what} {item.name} {item.needs} {item.why}",
        lambda item, view: cells.is_listed_long_ago(item.about, view),
        total=len(ordered),
        unknown=NO_ANSWER if len(missing) == len(lists) else f"unknown: no answer from Ray about {', '.join(missing)} yet",
    )


def orphans_section(view: View) -> Section[Process]:
    """Orphan and stale processes, the one with the most GPU memory first."""
    left = view.index.of(_left_over)
    looked, unjudged = view.snapshot.looked_at, view.snapshot.unjudged
    columns: tuple[Column[Process], ...] = (
        Column("ORPHANS", 10, lambda process, _: cells.kind(process), sort=lambda process, _: process.kind),
        text_column("NODE", 10, cells.place, name=True),
        PID_COLUMN,
        GPU_MEMORY_COLUMN,
        Column("GPUS", 7, lambda process, _: cells.gpu_indices(process), rank=1),
        age_column("AGE", 6, lambda process, _: process.started),
        Column("COMMAND", 14, lambda process, _: cells.command(process), grow=True),
        reason_column(14, lambda process, _: "; ".join(process.why), rank=1),
    )
    page = f"{unjudged_words(view.snapshot)}; page 4" if unjudged else ""
    probed = f"{'unknown' if unjudged else 'none'} ({plural(looked, 'host')} probed{page})"
    unknown = probed if looked else "unknown: no answer from a probe yet"
    title = "ORPHANS, STALE" if any(process.kind == "stale" for process in left) else "ORPHANS"
    rows = left[:MAX_ROWS] if left or (looked and not unjudged) else None
    return Section("left", title, columns, rows, probed, process_search, total=len(left), unknown=unknown)


def _left_over(snapshot: Snapshot) -> Sequence[Process]:
    return sorted((one for one in snapshot.processes or () if one.left_over), key=lambda process: -(process.gpu_memory or 0))


def running_jobs_section(view: View) -> Section[Job]:
    """Running jobs with their phase, GPUs and actors; on a wide screen also their last phases, and how their GPUs were used."""
    jobs = view.snapshot.jobs
    actors = view.index.of(_living_actors_by_job)
    rows = None if jobs is None else [job for job in jobs if job.status == "RUNNING"]

    def past(job: Job, what: str) -> list[float | None]:
        """The measured use of the job's GPUs: a mean for each cell."""
        each = STEPS_KEPT // JOB_PAST_CELLS
        values = view.history.job_tail(job.job or "", what, JOB_PAST_CELLS * each)
        return [cells.mean_known(values[at : at + each]) for at in range(0, len(values), each)]

    def phase(job: Job, view: View) -> str:
        return activity_words(view.index.of(phases_by_job).get(job.key, JobPhases()), view.now)

    def last_hour(job: Job, view: View) -> Cell:
        spans = view.index.of(phases_by_job).get(job.key, JobPhases()).spans
        end = (view.now // 60 + 1) * 60  # whole minutes: a cell keeps its phase once its minute is over
        return phase_band(spans, end - 60 * PHASE_BAND_CELLS, end, PHASE_BAND_CELLS, ascii=view.ascii)

    has_phases, has_band = bool(view.snapshot.activities), view.width >= PHASE_BAND_WIDTH
    room = view.width - JOB_COLUMNS_CELLS - (PHASE_BAND_CELLS + 1 if has_band else 0)
    phase_columns: tuple[Column[Job], ...] = (
        Column("PHASE", max(PHASE_CELLS[0], min(PHASE_CELLS[1], room)), phase, fold=2),
        *((Column("PHASES OF THE LAST HOUR", PHASE_BAND_CELLS, last_hour),) if has_band else ()),
    )
    minutes = f"{STEPS_KEPT * STEP_S / 60:.0f} MIN"
    past_columns: tuple[Column[Job], ...] = (
        Column(f"GPU UTIL {minutes}", JOB_PAST_CELLS, lambda job, view: spark(past(job, "gpu"), JOB_PAST_CELLS, ascii=view.ascii), rank=3),
        Column(
            f"GPU MEM {minutes}", JOB_PAST_CELLS, lambda job, view: spark(past(job, "memory"), JOB_PAST_CELLS, ascii=view.ascii), rank=4
        ),
        Column("BUSY OR IDLE", JOB_PAST_CELLS, lambda job, view: cells.phases(past(job, "gpu"), past(job, "memory"), view), rank=2),
    )
    columns: tuple[Column[Job], ...] = (
        text_column("RUNNING JOBS", 20, lambda job, _: job.id, name=True),
        Column("FOR", 6, lambda job, view: age(cells.run_seconds(job, view)), sort=lambda job, _: job.started, right=True),
        Column("GPUS", 4, lambda job, view: cells.job_gpus(job, view)[1], right=True),
        Column("GPU MEM", 7, lambda job, view: cells.job_gpus(job, view)[0], sort=cells.job_memory_bytes, right=True),
        Column("ACTORS", 6, lambda job, view: str(actors[job.job]) if view.snapshot.actors is not None else UNKNOWN, right=True),
        *(phase_columns if has_phases else ()),
        *(past_columns if view.width >= JOB_PAST_WIDTH else ()),
        Column("ENTRYPOINT", 16, lambda job, _: shorten_command(job.entrypoint or UNKNOWN), rank=1, grow=True, fold=MAX_TEXT_LINES),
    )
    return Section("runs", "RUNNING JOBS", columns, rows, search=lambda job: f"{job.id} {job.entrypoint}", is_old=cells.is_listed_long_ago)


def _living_actors_by_job(snapshot: Snapshot) -> Counter[str | None]:
    return Counter(actor.job for actor in snapshot.actors or () if actor.state == "ALIVE")


class OverviewPage(Page):
    """Everything that matters, in a few sections."""

    title = "Overview"
    short_title = "Over"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        return (*worst_section(view), nodes_section(view), waits_section(view), orphans_section(view), running_jobs_section(view))
