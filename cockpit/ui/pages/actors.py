"""Actors: pending, scheduled, by class and job, dead on demand; placement groups with their bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cockpit.model import Actor, Bundle, PlacementGroup, Snapshot
from cockpit.placement import needs_words
from cockpit.sources.source import SourceError
from cockpit.text import UNKNOWN, size
from cockpit.ui import cells
from cockpit.ui.pages.page import Page
from cockpit.ui.section import MAX_TEXT_LINES, Cell, Column, Section
from cockpit.ui.view import View


@dataclass(frozen=True)
class ClassRow:
    """All actors of one class and job."""

    name: str
    job: str | None
    actors: tuple[Actor, ...]

    @property
    def key(self) -> str:
        """Its identity."""
        return f"class:{self.name}:{self.job}"

    @property
    def about(self) -> Actor:
        """What opens on Enter: one that waits, if there is one."""
        return next((actor for actor in self.actors if actor.pending), self.actors[0])


@dataclass(frozen=True)
class GroupRow:
    """A placement group, or one of its bundles."""

    group: PlacementGroup
    number: int | None = None

    @property
    def key(self) -> str:
        """Its identity."""
        return f"{self.group.key}:{self.number}"

    @property
    def about(self) -> PlacementGroup:
        """What opens on Enter."""
        return self.group

    @property
    def bundle(self) -> Bundle | None:
        """The bundle, when the row is one."""
        return None if self.number is None else self.group.bundles[self.number]


class ActorsPage(Page):
    """Waiting actors first, then groups, classes, and every living actor."""

    title = "Actors"
    can_tree = True

    def __init__(self) -> None:
        super().__init__()
        self.dead: tuple[Actor, ...] | None = None
        self.dead_status = "loading"

    async def ask(self, dead: Callable[[], Awaitable[tuple[Actor, ...]]]) -> None:
        """Dead actors with their cause."""
        try:
            self.dead = await dead()
        except SourceError as error:
            self.dead_status = str(error)

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """The tree shows each group's bundles and each class's actors under it."""
        pending, scheduled, note = view.index.of(_pending), view.index.of(_scheduled), view.index.of(_internal_note)
        found: list[Section[Any]] = [
            _actors_section("pending", "PENDING" + _incomplete_note(view), pending, "no pending actors"),
            _groups_section(view, tree=self.tree),
            _classes_section(view.index.of(_classes), tree=self.tree),
            _actors_section("scheduled", "SCHEDULED" + _incomplete_note(view), scheduled, note),
        ]
        known, status = (self.dead, self.dead_status) if view.ago is None else (None, "not recorded")
        dead = _actors_section("dead", "DEAD", known, "none" if known is not None else status, why=True)
        return (dead, *found) if self.wants_dead else found


def _pending(snapshot: Snapshot) -> Sequence[Actor] | None:
    """Of jobs, as all that is listed; `None`: no answer yet."""
    return None if snapshot.actors is None else [actor for actor in snapshot.actors if not actor.internal and actor.state != "ALIVE"]


def _scheduled(snapshot: Snapshot) -> Sequence[Actor] | None:
    return None if snapshot.actors is None else [actor for actor in snapshot.actors if not actor.internal and actor.state == "ALIVE"]


def _classes(snapshot: Snapshot) -> Sequence[ClassRow] | None:
    found: dict[tuple[str, str | None], list[Actor]] = {}
    for actor in snapshot.actors or ():
        if not actor.internal:
            found.setdefault((actor.class_, actor.job), []).append(actor)
    return None if snapshot.actors is None else [ClassRow(name, job, tuple(members)) for (name, job), members in found.items()]


def _internal_note(snapshot: Snapshot) -> str:
    internal = sum(actor.internal for actor in snapshot.actors or ())
    return f"no actors of jobs; {internal} internal to Ray" if internal else "none"


def _incomplete_note(view: View) -> str:
    """Says that the list is incomplete: Ray cuts its answers at 10,000."""
    return " (incomplete: Ray lists only the first 10,000)" if view.snapshot.actors_complete is False else ""


def _actors_section(key: str, title: str, actors: Iterable[Actor] | None, nothing: str, *, why: bool = False) -> Section[Actor]:
    waits = key == "pending"
    columns: tuple[Column[Actor], ...] = (
        Column(title, 16 if waits else 20, _title, sort=_title, grow=not (waits or why), most=40),
        Column("CLASS", 14, lambda actor, _: actor.class_ if actor.name else "", sort=lambda actor, _: actor.class_, rank=5),
        Column("STATE", 14, lambda actor, view: cells.state(actor.state, view), sort=lambda actor, _: actor.state),
        Column(
            "NEEDS",
            15,
            lambda actor, _: cells.actor_needs(actor),
            sort=lambda actor, _: actor.needs.get("GPU"),
            rank=1 if waits else 0,
        ),
        Column(
            "FOR",
            6,
            lambda actor, view: cells.waiting_time(actor.since, view, at_least=actor.at_least),
            sort=lambda actor, _: actor.since,
            right=True,
            rank=0 if waits else 6,
        ),
        Column(
            "NODE",
            10,
            lambda actor, view: view.node_title(actor.node),
            sort=lambda actor, view: view.node_title(actor.node),
            rank=8 if waits else 1,
        ),
        Column(
            "PID",
            7,
            lambda actor, _: cells.actor_pid(actor),
            sort=lambda actor, _: actor.pid,
            right=True,
            rank=9 if waits else 2,
        ),
        Column(
            "GPU MEM",
            7,
            _memory,
            sort=lambda actor, view: view.index.actor_gpus.get(actor.id, (None,))[0],
            right=True,
            rank=10 if waits or why else 0,
        ),
        Column(
            "RST",
            3,
            lambda actor, _: UNKNOWN if actor.restarts is None else str(actor.restarts),
            sort=lambda actor, _: actor.restarts,
            right=True,
            rank=3,
        ),
        Column("JOB", 12, lambda actor, view: view.job_title(actor.job), sort=lambda actor, view: view.job_title(actor.job), rank=4),
        *([Column[Actor]("WHY", 36 if waits else 26, _why_of(once=waits), grow=True, fold=MAX_TEXT_LINES)] if waits or why else []),
    )
    rows = None if actors is None else list(actors)
    sentence = nothing if rows is not None or why else "not known: no answer from Ray yet"
    return Section(key, title, columns, rows, sentence, actor_search)


def _title(actor: Actor, _: View) -> str:
    """What it is called where a reason says `see actor …`."""
    return actor.name or actor.class_


def _why_of(*, once: bool) -> Callable[[Actor, View], Cell]:
    """Of those that wait a long reason in full only once."""
    return lambda actor, view: (((cells.why(actor, view) if once else actor.why) or UNKNOWN, "dim"),)


def actor_search(actor: Actor) -> str:
    """What the filter looks at."""
    return f"{actor.class_} {actor.name} {actor.state} {actor.job} {actor.node} {actor.pid} {actor.id} {actor.why}"


def _memory(actor: Actor, view: View) -> str:
    held = view.index.actor_gpus.get(actor.id)
    if held is None:
        return UNKNOWN if _is_memory_unknown(view, actor) else ""
    return size(held[0])


def _is_memory_unknown(view: View, *actors: Actor) -> bool:
    return view.snapshot.processes is None or any(actor.node in view.index.holders_unknown for actor in actors)


def _groups_section(view: View, *, tree: bool) -> Section[GroupRow]:
    groups = view.snapshot.placement_groups
    listed = (
        None if groups is None else sorted((group for group in groups if group.state != "REMOVED"), key=lambda group: not group.pending)
    )
    rows = None if listed is None else [row for group in listed for row in _group_rows(group, tree=tree)]
    columns: tuple[Column[GroupRow], ...] = (
        Column("GROUPS", 20, _group_name, sort=lambda row, _: row.group.name),
        Column(
            "STATE",
            13,
            lambda row, view: cells.state(row.group.state, view) if row.number is None else "",
            sort=lambda row, _: row.group.state,
        ),
        Column("STRATEGY", 13, lambda row, _: (row.group.strategy or UNKNOWN) if row.number is None else "", rank=2),
        Column("BUNDLES", 24, _bundles, grow=True),
        Column("PLACED", 14, _placement),
        Column(
            "FOR",
            6,
            lambda row, view: cells.ago(row.group.since, view) if row.number is None else "",
            sort=lambda row, _: row.group.since,
            right=True,
            rank=1,
        ),
        Column("JOB", 12, lambda row, view: view.job_title(row.group.job), sort=lambda row, _: row.group.job, rank=3),
        Column(
            "WHY",
            14,
            lambda row, view: ((cells.why(row.group, view), "dim"),) if row.number is None else "",
            rank=4,
            grow=True,
            fold=MAX_TEXT_LINES,
        ),
    )
    total = None if listed is None else len(listed)
    return Section(
        "groups",
        "GROUPS",
        columns,
        rows,
        "none" if groups is not None else "not known: no answer from Ray yet",
        _group_search,
        total=total if not tree else None,
    )


def _group_search(row: GroupRow) -> str:
    return f"{row.group.name} {row.group.id} {row.group.state} {row.group.job} {row.group.why}"


def _group_rows(group: PlacementGroup, *, tree: bool) -> list[GroupRow]:
    return [GroupRow(group), *(GroupRow(group, number) for number in range(len(group.bundles) if tree else 0))]


def _group_name(row: GroupRow, view: View) -> Cell:
    if row.number is None:
        return row.group.name or row.group.id[:12]
    return (("  - " if view.ascii else "  └ ", "faint"), (f"bundle {row.number}", ""))


def _bundles(row: GroupRow, _: View) -> str:
    bundles = (row.bundle,) if row.bundle else row.group.bundles
    shapes = Counter(needs_words(bundle.needs).replace(",", "") for bundle in bundles)
    return ", ".join(f"{number} x {shape}" if number > 1 else shape for shape, number in shapes.items())


def _placement(row: GroupRow, view: View) -> Cell:
    if row.bundle is not None:
        return view.node_title(row.bundle.node) if row.bundle.node else (("not placed", "warn"),)
    nodes = Counter(view.node_title(bundle.node) for bundle in row.group.bundles if bundle.node)
    return " ".join(f"{name}:{number}" for name, number in nodes.items()) or (("not placed", "warn"),)


def _classes_section(classes: Sequence[ClassRow] | None, *, tree: bool) -> Section[Any]:
    rows: list[Any] = [row for item in classes or () for row in (item, *(item.actors if tree else ()))]
    columns: tuple[Column[Any], ...] = (
        Column("CLASSES", 24, _class_name, sort=lambda row, _: row.name if isinstance(row, ClassRow) else row.class_, grow=True, most=40),
        Column("JOB", 14, lambda row, view: view.job_title(row.job), sort=lambda row, view: view.job_title(row.job), rank=1),
        Column("ALIVE", 6, lambda row, _: _states(row, "ALIVE"), right=True),
        Column("PENDING", 7, lambda row, _: _states(row, "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING"), right=True),
        Column("RST", 4, _restarts, right=True),
        Column("NEEDS EACH", 16, lambda row, _: cells.actor_needs(row.actors[0] if isinstance(row, ClassRow) else row), rank=2),
        Column("GPU MEM", 7, _class_memory, right=True),
    )
    nothing = "none" if classes is not None else "not known: no answer from Ray yet"
    return Section("classes", "CLASSES", columns, None if classes is None else rows, nothing, _class_search, total=len(classes or ()))


def _class_search(row: ClassRow | Actor) -> str:
    return f"{row.name} {row.job}" if isinstance(row, ClassRow) else actor_search(row)


def _class_name(row: ClassRow | Actor, view: View) -> Cell:
    if isinstance(row, ClassRow):
        return row.name
    return (("  - " if view.ascii else "  └ ", "faint"), (row.name or row.id[:12], ""))


def _states(row: ClassRow | Actor, *states: str) -> Cell:
    members = row.actors if isinstance(row, ClassRow) else (row,)
    number = sum(actor.state in states for actor in members)
    return (("0", "dim"),) if not number else ((str(number), "" if states == ("ALIVE",) else "warn"),)


def _restarts(row: ClassRow | Actor, _: View) -> str:
    """Of those that live or wait; what Ray doesn't tell of one makes the sum unknown."""
    counts = [actor.restarts for actor in (row.actors if isinstance(row, ClassRow) else (row,))]
    return UNKNOWN if None in counts else str(sum(filter(None, counts)))


def _class_memory(row: ClassRow | Actor, view: View) -> str:
    members = row.actors if isinstance(row, ClassRow) else (row,)
    held = [view.index.actor_gpus[actor.id][0] for actor in members if actor.id in view.index.actor_gpus]
    known = [memory for memory in held if memory is not None]
    return size(sum(known)) if known else UNKNOWN if _is_memory_unknown(view, *members) else ""
