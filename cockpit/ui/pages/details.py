"""Makes the page that Enter opens: everything about the one thing that a row stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard, TypeVar

import msgspec

from cockpit.check.preset_list import PresetEntry, hide_secrets
from cockpit.findings.engine_timeout import LIMIT_WORDS, deadline_words, find_deadline
from cockpit.findings.failures import failure_of, reason_of
from cockpit.findings.waiting import REMEDIES
from cockpit.model import Actor, Bundle, Demand, Fault, Finding, Job, Node, PlacementGroup, Process, Session
from cockpit.placement import needs_words
from cockpit.report.grouping import bundles_words
from cockpit.report.usage import usage_pairs
from cockpit.text import UNKNOWN, plural, size
from cockpit.ui import cells
from cockpit.ui.columns import GPU_MEMORY_COLUMN, PID_COLUMN, actor_search, number_column, process_search, reason_column
from cockpit.ui.findings import POOLS
from cockpit.ui.pages.engines import engines_section
from cockpit.ui.pages.findings import about_section, finding_sections
from cockpit.ui.pages.job_phases import phase_facts, phase_sections
from cockpit.ui.pages.nodes import NodePage
from cockpit.ui.pages.presets import preset_sections
from cockpit.ui.section import VALUE_COLUMN, Cell, Column, FactRow, Item, Page, PageRow, Pairs, Section, facts, paragraphs
from cockpit.ui.view import View

Thing = TypeVar("Thing", Actor, PlacementGroup, Process)
PROCESS_STATES = {
    "D": "D: blocked in the kernel, can't be killed now",
    "Z": "Z: zombie, the process has ended and its parent has not collected it",
}
DETACHED = {None: UNKNOWN, True: "yes: it outlives its job", False: "no"}
MIN_LOG_LINES = 4
"""Lines of a log that are always shown, even if other sections must be scrolled to: the end of a traceback."""
LOG_PART = 5
"""A log gets at least one line in five of the screen or pane, even if sections follow below it."""
OLD_AFTER_S = 15.0
"""The title of a log says when it was read if that was longer ago than this."""
USAGE_TITLE = "GPU-HOURS  reserved: in Ray; held: with memory of its processes"


def about(row: Any) -> Any:
    """The thing that a row stands for: its `about`, else itself. A finding stands for itself; its `about` has keys of rows."""
    return row if isinstance(row, Finding) else getattr(row, "about", row)


def clipboard_text(row: Any) -> str:
    """The text that is copied for a row: a pid, an id, a path, a host or the value of a fact."""
    thing = about(row) or row
    if isinstance(thing, Process):
        return str(thing.pid)
    if isinstance(thing, Demand):
        return needs_words(thing.needs)
    for name in ("id", "path", "host", "value"):
        text = getattr(thing, name, None)
        if isinstance(text, str) and text:
            return text
    return str(getattr(thing, "text", thing.key))


def json_text(rows: Iterable[Any]) -> str:
    """The facts that the rows stand for, as JSON; empty when they stand for none."""
    things = [about(row) or row for row in rows]
    facts = [
        hide_secrets(thing) if isinstance(thing, PresetEntry) else thing
        for thing in things
        if isinstance(thing, msgspec.Struct) and not isinstance(thing, PageRow)
    ]
    text = msgspec.json.encode(facts[0] if len(facts) == 1 else facts, enc_hook=str)
    return msgspec.json.format(text, indent=2).decode() if facts else ""


def detail_of(row: Any) -> Page | None:
    """The page about the thing that a row stands for; `None` if there is no more to show."""
    thing = getattr(row, "node", None) if about(row) is None else about(row)
    if isinstance(thing, Node):
        return NodePage(thing)
    return next((DetailPage(thing, make, name) for kind, make, name in DETAILS if isinstance(thing, kind)), None)


class DetailPage(Page):
    """All facts about one thing; the last known ones if it is gone."""

    def __init__(self, thing: Any, make: Callable[[Any, View], Sequence[Section[Any]]], name: str) -> None:
        self.thing, self._make, self._name = thing, make, name

    @property
    def heading(self) -> str:
        thing = self.thing
        fields = ("pid",) if isinstance(thing, Process) else ("source", "name", "class_", "id", "subject")
        named = needs_words(thing.needs) if isinstance(thing, Demand) else ""
        title = next((str(name) for field in fields if (name := getattr(thing, field, None))), named)
        return f"{self._name} {title}"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        kind = self.thing.key.partition(":")[0]
        pool = POOLS[kind](view.snapshot) if kind in POOLS else view.preset_entries
        now = next((other for other in pool or () if other.key == self.thing.key), None)
        if now is None and isinstance(self.thing, Actor) and self.thing.state == "DEAD":
            now = self.thing  # the snapshot does not list dead actors
        if now is None:
            known = "its last known state" if view.ago is None else "its state at another time"
            gone = facts("gone", "GONE", [("", f"This {self._name.lower()} {cells.say_unlisted(view)}. Below: {known}.")], view.width)
            first, *rest = self._make(self.thing, view)
            return (gone, first, *phase_sections(self.thing, view), *log_sections(self.thing, view), *rest)
        self.thing = now
        first, *rest = self._make(now, view)
        return (first, *about_section(now.key, view), *phase_sections(now, view), *log_sections(now, view), *rest)


def has_log(thing: Any) -> TypeGuard[Actor | Job | Process]:
    """Whether the page of this thing shows lines of a log. Ray writes no log for a process that is not its own."""
    return isinstance(thing, (Actor, Job)) or (isinstance(thing, Process) and thing.kind != "foreign")


def log_sections(thing: Any, view: View) -> tuple[Section[FactRow], ...]:
    """The section with the last lines of the thing's log; empty if it has no log."""
    if not has_log(thing):
        return ()
    title, rows = "LOG", None
    if (tail := view.log_tails.get(thing.key)) is not None:
        if tail.log is None:
            return (paragraphs("log", "LOG", [f"{UNKNOWN}  {tail.why}"], view.width),)
        name = tail.log.title if tail.log.label in ("job", "out", "err", tail.log.file) else f"{tail.log.label}: {tail.log.title}"
        age = f", read {cells.time_since(tail.read_at, view)} ago" if view.now - tail.read_at > OLD_AFTER_S else ""
        title = f"LOG  {name}{age}  {tail.keys} opens it"
        rows = [FactRow(f"log:{number}", "", line) for number, line in enumerate(tail.lines)]
    min_rows, unknown = max(MIN_LOG_LINES, view.height // LOG_PART), "not read yet" if view.ago is None else "not recorded"
    return (Section("log", title, (VALUE_COLUMN,), rows, "no lines yet", min_rows=min_rows, newest_last=True, fixed=True, unknown=unknown),)


def process_sections(process: Process, view: View) -> Sequence[Section[Any]]:
    """The sections of a process: its facts, its parents and its children."""

    def pairs() -> Pairs:
        yield "kind", (*cells.kind(process), (f": {process.kind}" if cells.is_of_other_ray(process) else "", "dim"))
        yield from (("why", each) for each in process.why)
        node = cells.place(process, view)
        yield ("node", f"{node} (host {process.host})") if node not in ("", process.host) else ("host", process.host)
        yield "pid", f"{process.pid}, started {cells.moment(process.started, view)}"
        yield "parent", str(process.parent) if process.parent is not None else UNKNOWN
        yield "user", process.user or UNKNOWN
        yield "state", PROCESS_STATES.get(process.state or "", process.state or UNKNOWN)
        yield "host memory", size(process.rss)
        yield from ((f"GPU {hold.index}", f"{size(hold.memory)} held") for hold in process.gpus)
        yield "job", view.job_title(process.job) or process.other_owner or UNKNOWN
        actor = view.cluster.actors.get(process.actor or "")
        yield "actor", f"{actor.class_} {actor.name or actor.id}" if actor else process.actor or UNKNOWN
        yield "session", process.session or UNKNOWN
        yield "command", process.command or process.name or UNKNOWN

    own = [other for other in view.snapshot.processes or () if other.host == process.host]
    children = [other for other in own if other.parent == process.pid and other.pid != process.pid]
    by_pid = {other.pid: other for other in own}
    parents: list[Process] = []
    seen = {process.pid}  # parents may form a loop
    parent = by_pid.get(process.parent or 0)
    while parent is not None and parent.pid not in seen:
        seen.add(parent.pid)
        parents.append(parent)
        parent = by_pid.get(parent.parent or 0)
    return (
        facts("process", "PROCESS", pairs(), view.width),
        processes_section("above", "PARENTS", parents, "none listed"),
        processes_section("below", "CHILDREN", children, "none listed"),
    )


def processes_section(key: str, title: str, rows: list[Process], nothing: str) -> Section[Process]:
    """A short list of processes."""
    columns: tuple[Column[Process], ...] = (
        Column(title, 9, lambda process, _: cells.kind(process)),
        Column("HOST", 10, cells.place, rank=1, name=True),
        PID_COLUMN,
        GPU_MEMORY_COLUMN,
        Column("GPUS", 6, lambda process, _: cells.gpu_indices(process), rank=2),
        number_column("RSS", 6, lambda process, _: process.rss, rank=3),
        Column("OWNER", 16, cells.owner, rank=4, name=True),
        Column("COMMAND", 20, lambda process, _: cells.command(process), grow=True),
    )
    return Section(key, title, columns, rows, nothing, process_search)


def _failure_pairs(job: Job, view: View) -> Pairs:
    """Why a job failed: what its log shows, where it was raised, who else reports it, and what helps."""
    failure = failure_of(job, view.snapshot)
    yield "reason", (reason := reason_of(failure)) or ("its log shows none" if failure.file else UNKNOWN)
    if failure.text and failure.text != reason:
        yield "error", failure.text
    if failure.raised_at:
        yield "raised at", failure.raised_at
    rank = f"rank {failure.rank}" if failure.rank is not None else ""
    pid = f"pid {failure.pid}" if failure.pid is not None else ""
    node = f"on {view.node_title(failure.node)}" if failure.node and (rank or pid) else ""
    if reported := " ".join(filter(None, (rank, pid, node))):
        yield "reported by", reported
    if failure.also:
        yield "also by", plural(failure.also, "other process", "other processes")
    if failure.others:
        later = f", {failure.earlier_s:.0f} s later" if failure.earlier_s else ""
        yield "others report", f"{failure.others} ({plural(failure.others_count, 'process', 'processes')}{later})"
    if failure.remedy:
        yield "what to do", failure.remedy
    if failure.unread:
        yield "its log", f"was not read: {failure.unread}"


def job_sections(job: Job, view: View) -> Sequence[Section[Any]]:
    """The sections of a job: its facts, GPU-hours, groups, actors and processes."""

    def pairs() -> Pairs:
        yield "status", cells.state(job.status, view)
        if job.status == "FAILED":
            yield from _failure_pairs(job, view)
        yield from phase_facts(job, view)
        yield "id in Ray", f"{job.job or 'no driver has connected yet'}{'' if job.submission else '  (not submitted)'}"
        yield "entrypoint", job.entrypoint or UNKNOWN
        yield "started", cells.moment(job.started, view)
        if job.ended:
            yield "ended", cells.moment(job.ended, view)
        yield "driver", f"pid {job.driver_pid if job.driver_pid is not None else UNKNOWN} on {view.node_title(job.driver_node) or UNKNOWN}"
        if job.exit_code is not None:
            yield "exit code", str(job.exit_code)
        if job.error_type:
            yield "error type", job.error_type
        yield "message", job.message or UNKNOWN

    def own(things: Iterable[Thing] | None) -> list[Thing] | None:
        return None if things is None else [thing for thing in things if job.job and thing.job == job.job]

    groups, actors = own(view.snapshot.placement_groups), own(view.snapshot.actors)
    groups = groups and [group for group in groups if group.state != "REMOVED"]
    group_columns: tuple[Column[PlacementGroup], ...] = (
        Column("GROUPS", 16, lambda group, _: cells.title(group), name=True),
        Column("STATE", 12, lambda group, view: cells.state(group.state, view)),
        Column("BUNDLES", 24, lambda group, _: bundles_words(group), grow=True),
        reason_column(14, lambda group, _: group.why, rank=1),
    )
    used, engines = view.history.usage.of_job(job), engines_section(job, view)
    return (
        facts("job", "JOB", pairs(), view.width),
        *([facts("job-usage", USAGE_TITLE, usage_pairs(used), view.width)] if used is not None and used.seen_s else ()),
        *((engines,) if engines is not None else ()),
        Section("job-groups", "GROUPS", group_columns, groups, search=lambda group: group.name, unknown="unknown"),
        _actors("job-actors", actors and [actor for actor in actors if not actor.internal]),
        processes_section("job-processes", "PROCESSES", own(view.snapshot.processes) or [], "none seen"),
    )


def _actors(key: str, actors: list[Actor] | None, title: str = "ACTORS") -> Section[Actor]:
    columns: tuple[Column[Actor], ...] = (
        Column(title, 24, lambda actor, _: cells.title(actor), name=True),
        Column("STATE", 14, lambda actor, view: cells.state(actor.state, view)),
        Column("NEEDS", 16, cells.actor_needs, grow=True),
        Column("NODE", 10, lambda actor, view: view.node_title(actor.node), name=True),
        Column("PID", 8, cells.actor_pid, right=True),
        reason_column(16, lambda actor, _: actor.why, rank=1),
    )
    return Section(key, title, columns, actors, search=actor_search, unknown="unknown")


def tasks_sections(demand: Demand, view: View) -> Sequence[Section[Any]]:
    """The sections of tasks that wait."""
    pairs: list[tuple[str, Cell]] = [
        ("needs", needs_words(demand.needs)),
        ("waiting", str(demand.count)),
        *_why(demand),
        ("job", f"{UNKNOWN}  (Ray counts them by what they need; `ray list tasks` shows their jobs)"),
    ]
    return (facts("tasks", "TASKS", pairs, view.width),)


def _why(waiting: Actor | PlacementGroup | Demand) -> Pairs:
    """The reason for a wait, and the remedy, which is also shown for waits that are no finding (yet)."""
    yield "why", waiting.why or UNKNOWN
    if waiting.wait is not None and waiting.wait in REMEDIES:
        yield "what to do", REMEDIES[waiting.wait][0]


def actor_sections(actor: Actor, view: View) -> Sequence[Section[Any]]:
    """The sections of an actor: its facts, similar actors, its processes and its group's bundles."""

    def pairs() -> Pairs:
        yield "class", actor.class_
        yield "name", actor.name or "none"
        yield "state", cells.state(actor.state, view)
        if actor.state != "ALIVE" or actor.why:
            yield from _why(actor)
        if actor.state != "ALIVE" or actor.since is not None:
            yield "since", cells.moment(actor.since, view) + ("; or earlier, before cockpit started" if actor.at_least else "")
        yield "needs", cells.actor_needs(actor)
        yield "node", f"{view.node_title(actor.node) or UNKNOWN}, pid {cells.actor_pid(actor)}"
        yield "job", view.job_title(actor.job) or UNKNOWN
        yield "restarts", UNKNOWN if actor.restarts is None else str(actor.restarts)
        yield "detached", DETACHED[actor.detached]
        group = view.index.groups.get(actor.placement_group or "")
        yield "group", (group.name if group else "") or actor.placement_group or "none"
        yield "namespace", actor.namespace or UNKNOWN
        yield "id", actor.id

    processes = [process for process in view.snapshot.processes or () if actor.is_run_by(process)]
    groups = [group for group in view.snapshot.placement_groups or () if group.id == actor.placement_group]
    alike = []  # a page shows them in one row with this actor
    if actor.state != "ALIVE":
        kind = (actor.class_, actor.job, actor.state)
        alike = [one for one in view.snapshot.actors or () if one.id != actor.id and (one.class_, one.job, one.state) == kind]
    return (
        facts("actor", "ACTOR", pairs(), view.width),
        *([_actors("actor-alike", alike, "SAME CLASS, STATE")] if alike else ()),
        processes_section("actor-processes", "PROCESSES", processes, "none seen"),
        *(_bundles(group) for group in groups),
    )


def group_sections(group: PlacementGroup, view: View) -> Sequence[Section[Any]]:
    """The sections of a placement group: its facts, bundles and actors."""

    def pairs() -> Pairs:
        yield "name", group.name or "none"
        yield "state", cells.state(group.state, view)
        if group.pending or group.why:
            yield from _why(group)
            if (deadline := find_deadline([group])) is not None:
                yield "limit", f"{deadline_words(deadline, view.now)}: {LIMIT_WORDS}"
        yield "strategy", group.strategy or f"{UNKNOWN}  (Ray reports it only while the group waits)"
        yield "requested", cells.moment(group.since, view)
        yield "job", view.job_title(group.job) or UNKNOWN
        yield "detached", DETACHED[group.detached]
        yield "id", group.id

    actors = [actor for actor in view.snapshot.actors or () if actor.placement_group == group.id]
    return (facts("group", "GROUP", pairs(), view.width), _bundles(group), _actors("group-actors", actors))


def _bundles(group: PlacementGroup) -> Section[Item[Bundle]]:
    columns: tuple[Column[Item[Bundle]], ...] = (
        Column("BUNDLES", 8, lambda row, _: row.key.rpartition(":")[2]),
        Column("NEEDS", 24, lambda row, _: needs_words(row.value.needs), grow=True),
        Column("NODE", 16, lambda row, view: view.node_title(row.value.node) if row.value.node else (("not placed", "warn"),), name=True),
    )
    rows = [Item(f"{group.key}:{number}", bundle) for number, bundle in enumerate(group.bundles)]
    return Section("bundles", "BUNDLES", columns, rows, search=lambda row: f"{row.key} {row.value.node}")


def session_sections(session: Session, view: View) -> Sequence[Section[Any]]:
    """The sections of a session's folder: its facts and processes."""

    def pairs() -> Pairs:
        yield "host", view.host_words(session.host)
        yield "path", session.path
        dead: Cell = (("dead: none of its processes runs", "warn"),)
        yield "state", UNKNOWN if session.live is None else (("live", "ok"),) if session.live else dead
        yield "started", cells.moment(session.started, view)
        yield "owner", session.owner or UNKNOWN
        yield "size", size(session.size)
        yield "session_latest", "points here" if session.latest else "points elsewhere or does not exist"
        yield "dashboard", session.dashboard or UNKNOWN
        yield from (("protected", kept) for kept in session.keeps)

    own = [process for process in view.snapshot.processes or () if process.host == session.host and process.session == session.name]
    return (facts("session", "SESSION", pairs(), view.width), processes_section("session-processes", "PROCESSES", own, "none"))


def fault_sections(fault: Fault, view: View) -> Sequence[Section[Any]]:
    """The section of a failing source."""
    pairs: list[tuple[str, Cell]] = [
        ("source", fault.source),
        *([("affects", ", ".join(fault.sources))] if len(fault.sources) > 1 else []),
        ("host", view.host_words(fault.host) if fault.host else UNKNOWN),
        ("since", cells.moment(fault.since, view)),
        ("error", fault.text),
        ("effect", "Data from this source is from before that time; cockpit keeps retrying."),
    ]
    return (facts("fault", "FAILING SOURCE", pairs, view.width),)


DETAILS: tuple[tuple[type, Callable[[Any, View], Sequence[Section[Any]]], str], ...] = (
    (Process, process_sections, "Process"),
    (Job, job_sections, "Job"),
    (Actor, actor_sections, "Actor"),
    (PlacementGroup, group_sections, "Placement group"),
    (Demand, tasks_sections, "Tasks"),
    (Session, session_sections, "Session"),
    (Fault, fault_sections, "Failing source"),
    (Finding, finding_sections, "Finding"),
    (PresetEntry, preset_sections, "Preset"),
)
"""By type: the sections of its page, and its name in the heading."""
