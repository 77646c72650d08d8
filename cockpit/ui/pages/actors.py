"""Actors: pending, alive, by class and job, dead on demand; placement groups with their bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cockpit.model import LEVELS, Actor, Bundle, PlacementGroup, Snapshot
from cockpit.placement import needs_words
from cockpit.sources.source import SourceError
from cockpit.text import UNKNOWN, count, size
from cockpit.ui import cells
from cockpit.ui.columns import actor_search, leaf, number_column, reason_column, text_column
from cockpit.ui.section import NO_ANSWER, Cell, Column, Page, PageRow, Section
from cockpit.ui.view import View


class ClassRow(PageRow, frozen=True):
    """All actors of one class and job; in the tree also each of them below it."""

    key: str
    about: Actor
    """What opens on Enter: one that waits, if there is one."""
    name: str
    job: str | None
    actors: tuple[Actor, ...]

    @property
    def is_leaf(self) -> bool:
        """Whether it is one actor, not the class."""
        return self.key == self.about.key


class GroupRow(PageRow, frozen=True):
    """A placement group, or one of its bundles."""

    key: str
    about: PlacementGroup
    bundle: Bundle | None = None


class ActorsPage(Page):
    """Waiting actors first, then groups, classes, and every living actor."""

    title = "Actors"
    switches = frozenset({"tree", "dead"})

    def __init__(self) -> None:
        self.wants_dead = False
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
        note = " (incomplete: Ray lists only the first 10,000)" if view.snapshot.actors_complete is False else ""
        known, status = (self.dead, self.dead_status) if view.ago is None else (None, "not recorded")
        pending, scheduled = view.index.of(_pending), view.index.of(_scheduled)
        waiting: tuple[Section[Any], ...] = (
            _actors_section("pending", "PENDING" + note, pending, "no pending actors"),
            _groups_section(view, tree=self.tree),
        )
        return (
            *([_actors_section("dead", "DEAD", known, "none", status)] if self.wants_dead else ()),
            *sorted(waiting, key=lambda section: min((_severity(row, view) for row in section.rows or ()), default=len(LEVELS))),
            _classes_section(view.index.of(_classes), tree=self.tree),
            _actors_section("scheduled", "SCHEDULED" + note, scheduled, view.index.of(_internal_note)),
        )


def _severity(row: Any, view: View) -> int:
    """Of what is found about it: 0 for the worst."""
    level = view.index.findings.level(row)
    return LEVELS.index(level) if level else len(LEVELS)


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
    return None if snapshot.actors is None else [_class(name, job, members) for (name, job), members in found.items()]


def _class(name: str, job: str | None, members: Sequence[Actor]) -> ClassRow:
    first = next((actor for actor in members if actor.pending), members[0])
    return ClassRow(f"class:{name}:{job}", first, name, job, tuple(members))


def _internal_note(snapshot: Snapshot) -> str:
    internal = sum(actor.internal for actor in snapshot.actors or ())
    return f"no actors of jobs; {internal} internal to Ray" if internal else "none"


def _actors_section(key: str, title: str, actors: Sequence[Actor] | None, nothing: str, unknown: str = NO_ANSWER) -> Section[Actor]:
    waits, is_dead = key == "pending", key == "dead"
    columns: list[Column[Actor]] = [
        text_column(title, 16 if waits else 20, lambda actor, _: cells.title(actor), name=True),
        Column("CLASS", 14, lambda actor, _: actor.class_ if actor.name else "", sort=lambda actor, _: actor.class_, rank=5, name=True),
        Column("STATE", 14, lambda actor, view: cells.state(actor.state, view), sort=lambda actor, _: actor.state),
        Column("NEEDS", 15, cells.actor_needs, sort=lambda actor, _: actor.needs.get("GPU"), rank=1 if waits else 0, grow=True),
        Column("FOR", 6, _waiting_time, sort=lambda actor, _: actor.since, right=True, rank=0 if waits else 6),
        text_column("NODE", 10, lambda actor, view: view.node_title(actor.node), rank=8 if waits else 1, name=True),
        Column("PID", 7, cells.actor_pid, sort=lambda actor, _: actor.pid, right=True, rank=9 if waits else 2),
        Column("GPU MEM", 7, _memory, sort=_memory_bytes, right=True, rank=10 if waits or is_dead else 0),
        number_column("RST", 3, lambda actor, _: actor.restarts, count, rank=3),
        text_column("JOB", 12, lambda actor, view: view.job_title(actor.job), rank=4, name=True),
    ]
    if waits:
        columns.append(reason_column(36, lambda actor, view: cells.why(actor, view) or UNKNOWN))  # a long one in full only once
    elif is_dead:
        columns.append(reason_column(26, lambda actor, _: actor.why or UNKNOWN))
    return Section(key, title, tuple(columns), actors, nothing, actor_search, cells.is_listed_long_ago, unknown=unknown)


def _waiting_time(actor: Actor, view: View) -> str:
    return cells.waiting_time(actor, actor.since, view, at_least=actor.at_least)


def _memory_bytes(actor: Actor, view: View) -> int | None:
    held = view.cluster.gpus_by_actor.get(actor.id)
    return held.memory if held else None


def _memory(actor: Actor, view: View) -> str:
    if actor.id in view.cluster.gpus_by_actor:
        return size(_memory_bytes(actor, view))
    return UNKNOWN if _is_memory_unknown(view, actor) else ""


def _is_memory_unknown(view: View, *actors: Actor) -> bool:
    return view.snapshot.processes is None or any(actor.node in view.index.holders_unknown for actor in actors)


def _groups_section(view: View, *, tree: bool) -> Section[GroupRow]:
    groups = [group for group in view.snapshot.placement_groups or () if group.state != "REMOVED"]
    ordered = sorted(groups, key=lambda group: (_severity(group, view), not group.pending))
    rows = [row for group in ordered for row in _group_rows(group, tree=tree)]
    columns: tuple[Column[GroupRow], ...] = (
        Column("GROUPS", 20, _group_name, sort=lambda row, _: row.about.name, name=True),
        _of_group("STATE", 13, lambda group, view: cells.state(group.state, view), sort=lambda row, _: row.about.state),
        _of_group("STRATEGY", 13, lambda group, _: group.strategy or UNKNOWN, rank=2),
        Column("BUNDLES", 24, _bundles, grow=True),
        Column("PLACED", 14, _placement, grow=True),
        _of_group(
            "FOR",
            6,
            lambda group, view: cells.waiting_time(group, group.since, view),
            sort=lambda row, _: row.about.since,
            right=True,
            rank=1,
        ),
        Column("JOB", 12, lambda row, view: view.job_title(row.about.job), sort=lambda row, _: row.about.job, rank=3, name=True),
        reason_column(14, lambda row, view: cells.why(row.about, view) if row.bundle is None else "", rank=4),
    )
    return Section(
        "groups",
        "GROUPS",
        columns,
        None if view.snapshot.placement_groups is None else rows,
        search=lambda row: f"{row.about.name} {row.about.id} {row.about.state} {row.about.job} {row.about.why}",
        dim=lambda row, view: cells.is_listed_long_ago(row.about, view),
        total=len(groups),
    )


def _of_group(title: str, width: int, cell: Callable[[PlacementGroup, View], Cell], **more: Any) -> Column[GroupRow]:
    """Said of a group, not of each of its bundles."""
    return Column(title, width, lambda row, view: cell(row.about, view) if row.bundle is None else "", **more)


def _group_rows(group: PlacementGroup, *, tree: bool) -> list[GroupRow]:
    bundles = enumerate(group.bundles if tree else ())
    return [GroupRow(group.key, group), *(GroupRow(f"{group.key}:{number}", group, bundle) for number, bundle in bundles)]


def _group_name(row: GroupRow, view: View) -> Cell:
    return cells.title(row.about) if row.bundle is None else leaf(f"bundle {row.key.rpartition(':')[2]}", view)


def _bundles(row: GroupRow, _: View) -> str:
    bundles = (row.bundle,) if row.bundle else row.about.bundles
    shapes = Counter(needs_words(bundle.needs).replace(",", "") for bundle in bundles)
    return ", ".join(f"{number} x {shape}" if number > 1 else shape for shape, number in shapes.items())


def _placement(row: GroupRow, view: View) -> Cell:
    if row.bundle is not None:
        return view.node_title(row.bundle.node) if row.bundle.node else (("not placed", "warn"),)
    nodes = Counter(view.node_title(bundle.node) for bundle in row.about.bundles if bundle.node)
    return " ".join(f"{name}:{number}" for name, number in nodes.items()) or (("not placed", "warn"),)


def _classes_section(classes: Sequence[ClassRow] | None, *, tree: bool) -> Section[ClassRow]:
    columns: tuple[Column[ClassRow], ...] = (
        Column("CLASSES", 24, _class_name, sort=lambda row, _: row.about.class_, name=True),
        text_column("JOB", 14, lambda row, view: view.job_title(row.job), rank=1, name=True),
        Column("ALIVE", 6, lambda row, _: _states(row, "ALIVE"), right=True),
        Column("PENDING", 7, lambda row, _: _states(row, "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING"), right=True),
        Column("RST", 4, _restarts, right=True),
        Column("NEEDS EACH", 16, lambda row, view: cells.actor_needs(row.actors[0], view), rank=2, grow=True),
        Column("GPU MEM", 7, _class_memory, right=True),
    )
    rows = [row for each in classes or () for row in (each, *(map(_leaf, each.actors) if tree else ()))]
    return Section("classes", "CLASSES", columns, None if classes is None else rows, search=_class_search, total=len(classes or ()))


def _leaf(actor: Actor) -> ClassRow:
    return ClassRow(actor.key, actor, actor.name or actor.id[:12], actor.job, (actor,))


def _class_search(row: ClassRow) -> str:
    return actor_search(row.about) if row.is_leaf else f"{row.name} {row.job}"


def _class_name(row: ClassRow, view: View) -> Cell:
    return leaf(row.name, view) if row.is_leaf else row.name


def _states(row: ClassRow, *states: str) -> Cell:
    number = sum(actor.state in states for actor in row.actors)
    return (("0", "dim"),) if not number else ((str(number), "" if states == ("ALIVE",) else "warn"),)


def _restarts(row: ClassRow, _: View) -> str:
    """Of those that live or wait; what Ray doesn't tell of one makes the sum unknown."""
    restarts = [actor.restarts for actor in row.actors]
    return UNKNOWN if None in restarts else str(sum(filter(None, restarts)))


def _class_memory(row: ClassRow, view: View) -> str:
    known = [held for actor in row.actors if (held := _memory_bytes(actor, view)) is not None]
    return size(sum(known)) if known else UNKNOWN if _is_memory_unknown(view, *row.actors) else ""
