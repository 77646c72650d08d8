"""Makes the page of actors: pending ones, placement groups with bundles, actors by class and job, living ones; dead ones on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

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
    """The actor that Enter opens: a pending one, if there is one."""
    name: str
    job: str | None
    actors: tuple[Actor, ...]

    @property
    def is_leaf(self) -> bool:
        """Whether the row is one actor, not the class."""
        return self.key == self.about.key


class GroupRow(PageRow, frozen=True):
    """A placement group, or one of its bundles."""

    key: str
    about: PlacementGroup
    bundle: Bundle | None = None


class ActorLists(msgspec.Struct, frozen=True):
    """The actors of jobs in one snapshot. `None`: Ray has not answered yet."""

    pending: Sequence[Actor] | None = None
    scheduled: Sequence[Actor] | None = None
    classes: Sequence[ClassRow] | None = None
    internal: int = 0
    """The number of Ray's own actors, which are in no list."""


def list_actors(snapshot: Snapshot) -> ActorLists:
    """List the actors of jobs by state, and by class and job."""
    if snapshot.actors is None:
        return ActorLists()
    actors = [actor for actor in snapshot.actors if not actor.internal]
    by_class: dict[tuple[str, str | None], list[Actor]] = {}
    for actor in actors:
        by_class.setdefault((actor.class_, actor.job), []).append(actor)
    classes = []
    for (name, job), members in by_class.items():
        first = next((actor for actor in members if actor.pending), members[0])
        classes.append(ClassRow(f"class:{name}:{job}", first, name, job, tuple(members)))
    return ActorLists(
        pending=[actor for actor in actors if actor.state != "ALIVE"],
        scheduled=[actor for actor in actors if actor.state == "ALIVE"],
        classes=classes,
        internal=len(snapshot.actors) - len(actors),
    )


class ActorsPage(Page):
    """Pending actors and groups, the one with the worst finding first; then classes, and every living actor."""

    title = "Actors"
    switches = frozenset({"tree", "dead"})

    def __init__(self) -> None:
        self.wants_dead = False
        self.dead: tuple[Actor, ...] | None = None
        self.dead_status = "loading"

    async def load_dead(self, dead: Callable[[], Awaitable[tuple[Actor, ...]]]) -> None:
        """Ask for the dead actors with their cause."""
        try:
            self.dead = await dead()
        except SourceError as error:
            self.dead_status = str(error)

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """The tree shows the bundles of each group and the actors of each class."""
        lists = view.index.of(list_actors)
        note = " (incomplete: Ray lists only the first 10,000)" if view.snapshot.actors_complete is False else ""
        dead, status = (self.dead, self.dead_status) if view.ago is None else (None, "not recorded")
        none_alive = f"no actors of jobs; {lists.internal} internal to Ray" if lists.internal else "none"
        waiting: tuple[Section[Any], ...] = (
            _actors_section("pending", "PENDING" + note, lists.pending, "no pending actors"),
            _groups_section(view, tree=self.tree),
        )
        return (
            *([_actors_section("dead", "DEAD", dead, "none", status)] if self.wants_dead else ()),
            *sorted(waiting, key=lambda section: min((_severity(row, view) for row in section.rows or ()), default=len(LEVELS))),
            _classes_section(lists.classes, tree=self.tree),
            _actors_section("scheduled", "SCHEDULED" + note, lists.scheduled, none_alive),
        )


def _severity(row: Any, view: View) -> int:
    """The rank of the worst finding about the row: 0 is critical."""
    level = view.index.findings.level(row)
    return LEVELS.index(level) if level else len(LEVELS)


def _actors_section(key: str, title: str, actors: Sequence[Actor] | None, nothing: str, unknown: str = NO_ANSWER) -> Section[Actor]:
    waits, is_dead = key == "pending", key == "dead"
    columns: list[Column[Actor]] = [
        text_column(title, 16 if waits else 20, lambda actor, _: cells.title(actor), name=True),
        Column("CLASS", 14, lambda actor, _: actor.class_ if actor.name else "", sort=lambda actor, _: actor.class_, rank=5, name=True),
        Column("STATE", 14, lambda actor, view: cells.state(actor.state, view), sort=lambda actor, _: actor.state),
        Column("NEEDS", 15, cells.actor_needs, sort=lambda actor, _: actor.needs.get("GPU"), rank=1 if waits else 0, grow=True),
        Column("FOR", 6, cells.waiting_time, sort=lambda actor, _: actor.since, right=True, rank=0 if waits else 6),
        text_column("NODE", 10, lambda actor, view: view.node_title(actor.node), rank=8 if waits else 1, name=True),
        Column("PID", 7, cells.actor_pid, sort=lambda actor, _: actor.pid, right=True, rank=9 if waits else 2),
        Column(
            "GPU MEM",
            7,
            lambda actor, view: _gpu_memory([actor], view),
            sort=lambda actor, view: _held_bytes([actor], view),
            right=True,
            rank=10 if waits or is_dead else 0,
        ),
        number_column("RST", 3, lambda actor, _: actor.restarts, count, rank=3),
        text_column("JOB", 12, lambda actor, view: view.job_title(actor.job), rank=4, name=True),
    ]
    if waits:
        columns.append(reason_column(36, lambda actor, view: cells.wait_reason(actor, view) or UNKNOWN))  # a long one in full only once
    elif is_dead:
        columns.append(reason_column(26, lambda actor, _: actor.why or UNKNOWN))
    return Section(key, title, tuple(columns), actors, nothing, actor_search, cells.is_listed_long_ago, unknown=unknown)


def _held_bytes(actors: Sequence[Actor], view: View) -> int | None:
    """GPU memory that the actors are seen to hold; `None`: none of them is seen to hold any."""
    held = [held.memory for actor in actors if (held := view.cluster.gpus_by_actor.get(actor.id))]
    known = [memory for memory in held if memory is not None]
    return sum(known) if known else None


def _gpu_memory(actors: Sequence[Actor], view: View) -> str:
    """GPU memory of the actors; empty where they are known to hold none."""
    if any(actor.id in view.cluster.gpus_by_actor for actor in actors):
        return size(_held_bytes(actors, view))
    is_unknown = view.snapshot.processes is None or any(actor.node in view.index.holders_unknown for actor in actors)
    return UNKNOWN if is_unknown else ""


def _groups_section(view: View, *, tree: bool) -> Section[GroupRow]:
    groups = [group for group in view.snapshot.placement_groups or () if group.state != "REMOVED"]
    rows = []
    for group in sorted(groups, key=lambda group: (_severity(group, view), not group.pending)):
        rows.append(GroupRow(group.key, group))
        if tree:
            rows += [GroupRow(f"{group.key}:{number}", group, bundle) for number, bundle in enumerate(group.bundles)]

    def of_group(title: str, width: int, cell: Callable[[PlacementGroup, View], Cell], **more: Any) -> Column[GroupRow]:
        """A column that is empty in the rows of bundles."""
        return Column(title, width, lambda row, view: cell(row.about, view) if row.bundle is None else "", **more)

    def name(row: GroupRow, view: View) -> Cell:
        return cells.title(row.about) if row.bundle is None else leaf(f"bundle {row.key.rpartition(':')[2]}", view)

    def bundles(row: GroupRow, _: View) -> str:
        shapes = Counter(needs_words(bundle.needs).replace(",", "") for bundle in ((row.bundle,) if row.bundle else row.about.bundles))
        return ", ".join(f"{number} x {shape}" if number > 1 else shape for shape, number in shapes.items())

    def placed(row: GroupRow, view: View) -> Cell:
        """The node of a bundle; for a group, the number of its bundles on each node."""
        if row.bundle is not None:
            return view.node_title(row.bundle.node) if row.bundle.node else (("not placed", "warn"),)
        nodes = Counter(view.node_title(bundle.node) for bundle in row.about.bundles if bundle.node)
        return " ".join(f"{name}:{number}" for name, number in nodes.items()) or (("not placed", "warn"),)

    columns: tuple[Column[GroupRow], ...] = (
        Column("GROUPS", 20, name, sort=lambda row, _: row.about.name, name=True),
        of_group("STATE", 13, lambda group, view: cells.state(group.state, view), sort=lambda row, _: row.about.state),
        of_group("STRATEGY", 13, lambda group, _: group.strategy or UNKNOWN, rank=2),
        Column("BUNDLES", 24, bundles, grow=True),
        Column("PLACED", 14, placed, grow=True),
        of_group("FOR", 6, cells.waiting_time, sort=lambda row, _: row.about.since, right=True, rank=1),
        Column("JOB", 12, lambda row, view: view.job_title(row.about.job), sort=lambda row, _: row.about.job, rank=3, name=True),
        reason_column(14, lambda row, view: cells.wait_reason(row.about, view) if row.bundle is None else "", rank=4),
    )
    return Section(
        "groups",
        "GROUPS",
        columns,
        None if view.snapshot.placement_groups is None else rows,
        search=lambda row: f"{row.about.name} {row.about.id} {row.about.state} {row.about.job} {row.about.why}",
        is_old=lambda row, view: cells.is_listed_long_ago(row.about, view),
        total=len(groups),
    )


def _classes_section(classes: Sequence[ClassRow] | None, *, tree: bool) -> Section[ClassRow]:
    rows = []
    for each in classes or ():
        rows.append(each)
        if tree:
            rows += [ClassRow(actor.key, actor, actor.name or actor.id[:12], actor.job, (actor,)) for actor in each.actors]

    def name(row: ClassRow, view: View) -> Cell:
        return leaf(row.name, view) if row.is_leaf else row.name

    def in_state(row: ClassRow, *states: str) -> Cell:
        number = sum(actor.state in states for actor in row.actors)
        return (("0", "dim"),) if not number else ((str(number), "" if states == ("ALIVE",) else "warn"),)

    def restarts(row: ClassRow, _: View) -> str:
        """The sum over the actors; unknown if it is unknown for one of them."""
        numbers = [actor.restarts for actor in row.actors]
        return UNKNOWN if None in numbers else str(sum(filter(None, numbers)))

    columns: tuple[Column[ClassRow], ...] = (
        Column("CLASSES", 24, name, sort=lambda row, _: row.about.class_, name=True),
        text_column("JOB", 14, lambda row, view: view.job_title(row.job), rank=1, name=True),
        Column("ALIVE", 6, lambda row, _: in_state(row, "ALIVE"), right=True),
        Column("PENDING", 7, lambda row, _: in_state(row, "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING"), right=True),
        Column("RST", 4, restarts, right=True),
        Column("NEEDS EACH", 16, lambda row, view: cells.actor_needs(row.actors[0], view), rank=2, grow=True),
        Column("GPU MEM", 7, lambda row, view: _gpu_memory(row.actors, view), right=True),
    )
    return Section(
        "classes",
        "CLASSES",
        columns,
        None if classes is None else rows,
        search=lambda row: actor_search(row.about) if row.is_leaf else f"{row.name} {row.job}",
        total=len(classes or ()),
    )
