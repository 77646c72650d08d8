"""The lines above every page: a summary of the cluster, the open page, and failing sources and old data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import LEVELS, Fault, Snapshot
from cockpit.moment import moment_text
from cockpit.report.faults import also_down, by_cause
from cockpit.text import UNKNOWN, age, clean, count, plural, ratio, share_percent, size
from cockpit.ui import cells
from cockpit.ui.marks import Piece, Tone
from cockpit.ui.pages import PAGES
from cockpit.ui.section import Page
from cockpit.ui.table import Table
from cockpit.ui.tones import draw_pieces
from cockpit.ui.view import View

if TYPE_CHECKING:
    from cockpit.recording.recorder import RecorderState

MAX_FAULT_LINES = 3
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ADDRESS_CELLS = 12
"""Of an address that is kept at the cost of others: `:41207`, `gpu-17:8265`."""
MAX_ADDRESS_CELLS = 60
"""Cells of the longest address that is shown whole."""
WIDE_COLUMNS = 100
"""Columns from which on the names of the pages stand apart."""
PAGE_LINE = 1
"""The line with the names of the pages, counted from 0."""
Group = tuple[Piece, ...]


def summary(view: View, width: int) -> list[Group]:
    """The summary of the cluster in one line: from when it is if not from now, where, then all groups, as long as `width` allows."""
    if view.ago is None:
        return _summary(view, width)
    long, short = _past(view)
    past = long if _width((long, *(make(view, True) for make in GROUPS))) <= width else short
    return [past, *_summary(view, width - _width([past]))]


def _past(view: View) -> Iterator[Group]:
    """Drawn like nothing else: what stands below it is not how things are. The longest form first."""
    when: Piece = (f" PAST {moment_text(view.now, view.now + (view.ago or 0))} ", "past")
    yield when, (f" {age(view.ago)} ago", "bold")
    yield when, (f" {age(view.ago)}", "bold")


def _summary(view: View, width: int) -> list[Group]:
    groups = {make: make(view, True) for make in GROUPS}
    for make in LESS_THAN_THE_ADDRESS if view.ago is None else ():
        if _width((*groups.values(), _where_in(view, ADDRESS_CELLS))) > width:
            del groups[make]
    where = list(_where(view, width - _width(groups.values())))
    ray = next((form for form in where if _width((form, *groups.values())) <= width), ())
    for make in GROUPS_BY_PRIORITY:
        longer = {**groups, make: make(view, False)} if make in groups else groups
        if _width((ray, *longer.values())) <= width:
            groups = longer
    ray = next((form for form in (*_who(view), ray) if _width((form, *groups.values())) <= width), ray)
    shown = [group for group in (ray, *groups.values()) if group]
    while len(shown) > 1 and _width(shown) > width:  # half a number would be another one
        shown.pop()
    return shown


def _width(groups: Iterable[Group]) -> int:
    return sum(_cells(group) + 2 for group in groups if group)


def _cells(pieces: Iterable[Piece]) -> int:
    return sum(cell_len(clean(text)) for text, _ in pieces)


def _who(view: View) -> Iterator[Group]:
    """Which Ray it is, with what nobody misses where there is no room."""
    cluster = view.snapshot.cluster
    if cluster.reachable is not False and cluster.ray_version is not None:
        ray: Group = ((f"Ray {cluster.ray_version} ", "bold"), (_address(view, MAX_ADDRESS_CELLS), ""))
        yield (*ray, (f" {_session(view)}", "dim"))
        if not _are_several(view):
            yield ray


def _where(view: View, room: int) -> Iterator[Group]:
    """Which Ray it is, the longest form first. Only where several live here its session is worth the room of other groups."""
    begin, link = _is_it_there(view)
    if _are_several(view) and _session(view):
        when = _session(view)[11:]  # the time, as owners of another Ray are told apart
        yield begin, (f" {_address(view, MAX_ADDRESS_CELLS)} {when}", "")
    for longest in (MAX_ADDRESS_CELLS, room - len(begin[0] + link) - 2):
        yield _where_in(view, longest)
    yield (begin,)


def _where_in(view: View, longest: int) -> Group:
    """With an address of so many cells."""
    begin, link = _is_it_there(view)
    return begin, (link + _address(view, longest), "")


def _is_it_there(view: View) -> tuple[Piece, str]:
    if view.snapshot.cluster.reachable is False:
        return (f"{'x' if view.ascii else '✖'} no dashboard", "bad"), " at "
    return ("Ray", "dim"), " "


def _are_several(view: View) -> bool:
    return len({session.name for session in view.snapshot.sessions or () if session.live}) > 1


def _session(view: View) -> str:
    return (view.snapshot.cluster.session or "").removeprefix("session_")[:19]


def _address(view: View, room: int) -> str:
    """`gpu-17.cluster.local:8265`; where that is too long `gpu-17:8265`, of this host `:8265`; else its end, which tells most."""
    whole = (view.snapshot.cluster.address or UNKNOWN).removeprefix("http://")
    host, _, port = whole.rpartition(":")
    near = "" if host in LOOPBACK else host if host.replace(".", "").isdigit() else host.partition(".")[0]
    dots = ".." if view.ascii else "…"
    fitting = (text for text in (whole, f"{near}:{port}") if len(text) <= room)
    return next(fitting, dots + whole[len(whole) - max(room - len(dots), 0) :])


def _nodes(view: View, _: bool) -> Group:
    if (known := view.index.node_count) is None:
        return (("nodes ", "dim"), (UNKNOWN, ""))
    alive, missing = known
    return (("nodes ", "dim"), (f"{alive}/{alive + missing}", "bad" if missing else "ok"))


def _gpus(view: View, terse: bool) -> Group:
    used, total = view.index.reserved_gpus
    text = f"{UNKNOWN if used is None else count(used)}/{UNKNOWN if view.index.node_count is None else count(total)}"
    not_given = sum(map(len, view.index.gpus_not_given.values()))
    rest = f", {not_given} not given to Ray" if not_given else ""
    return (("GPUs ", "dim"), (text, "reserved"), ("" if terse else f" reserved{rest}", "dim"))


def _gpu_memory(view: View, terse: bool) -> Group:
    known = view.index.gpu_memory
    if known is None:
        return (("GPU mem ", "dim"), (UNKNOWN, ""))
    used, total = known
    return (
        ("GPU mem " if terse else "GPU memory ", "dim"),
        (share_percent(ratio(used, total)), ""),
        ("" if terse else f" {size(used)}/{size(total)}", "dim"),
    )


def _actors(view: View, terse: bool) -> Group:
    counts = view.snapshot.actor_counts
    if counts is None:
        return (("actors ", "dim"), (UNKNOWN, ""))
    pending = counts.get("PENDING_CREATION", 0) + counts.get("DEPENDENCIES_UNREADY", 0)
    restarting = counts.get("RESTARTING", 0)
    alive, waiting = counts.get("ALIVE", 0), pending + restarting
    if terse:
        return (("actors ", "dim"), (f"{alive}/{alive + waiting}", "warn" if waiting else ""))
    pieces: list[Piece] = [("actors ", "dim"), (f"{alive} alive", "")]
    for number, word in ((pending, "pending"), (restarting, "restarting")):
        pieces += [(", ", "dim"), (f"{number} {word}", "warn")] if number else []
    return tuple(pieces)


def _jobs(view: View, terse: bool) -> Group:
    jobs = view.snapshot.jobs
    if jobs is None:
        return (("jobs ", "dim"), (UNKNOWN, ""))
    return (("jobs ", "dim"), (f"{sum(job.status == 'RUNNING' for job in jobs)}{'' if terse else ' running'}", ""))


def _age(view: View, terse: bool) -> Group:
    heard = view.snapshot.as_of.get("ray.nodes") or max((host.taken or 0 for host in view.snapshot.hosts.values()), default=0) or None
    old = heard is None or view.now - heard > STALE_AFTER_S
    if view.ago is not None and not old:
        return ()  # beside how long ago that was it would only be mistaken
    return ((f"{age(None if heard is None else view.now - heard)}{'' if terse else ' ago'}", "stale" if old else "dim"),)


def _findings(view: View, terse: bool) -> Group:
    """How many of each level; where there is no room it is said on the next line."""
    counts = () if terse else tuple(_finding_counts(view))
    return (("findings", "dim"), *counts) if counts else ()


def _finding_counts(view: View) -> Iterator[Piece]:
    for level in LEVELS:
        if number := view.index.findings.counts.get(level):
            mark, tone = cells.level_mark(level, ascii=view.ascii)
            yield f" {mark}{number}", tone


def _hidden(view: View, _: bool) -> Group:
    """How many of each level the user has hidden: nobody else would know that there is a critical one."""
    hidden = Counter(finding.level for finding in view.index.findings.hidden)
    marks = [f"{cells.level_mark(level, ascii=view.ascii)[0]}{hidden[level]}" for level in LEVELS if hidden[level]]
    return ((f"{' '.join(marks)} hidden", "dim"),) if marks else ()


GROUPS: tuple[Callable[[View, bool], Group], ...] = (_findings, _hidden, _nodes, _gpus, _gpu_memory, _actors, _jobs, _age)
GROUPS_BY_PRIORITY = (_findings, _actors, _gpus, _gpu_memory, _age, _jobs)
"""The groups in the order in which they get their long form."""
LESS_THAN_THE_ADDRESS = (_gpu_memory, _jobs, _actors, _gpus)
"""What goes before it, in this order: whoever doesn't see which Ray this is may stop the wrong one. In the past nothing can be stopped."""


def fault_lines(snapshot: Snapshot) -> list[tuple[str, float]]:
    """A sentence for each cause of failing sources and for each dead node, with the time since when (0: not known)."""
    titles = snapshot.index.titles
    lines = [(_sentence(fault, titles.of_host(fault.host or "")), fault.since) for fault in by_cause(snapshot.faults)]
    dead = [node for node in snapshot.nodes or () if node.state == "DEAD"]
    living = {node.ip for node in snapshot.nodes or () if node.state == "ALIVE"}
    return lines + [(f"{node.title} is dead: {node.message or 'Ray gives no reason'}", 0.0) for node in dead if node.ip not in living]


def _sentence(fault: Fault, title: str) -> str:
    place = f"{title}: " if fault.host and fault.host not in fault.text and title not in fault.text else ""
    return f"{place}{fault.text}{also_down(fault)}"


def page_line(
    pages: Sequence[Page],
    width: int,
    notes: Iterable[tuple[str, Tone]],
    counts: Sequence[Piece] = (),
    *,
    ascii: bool,
) -> tuple[Piece, ...]:
    """The line of pages: which is open, the details opened from it, notes such as PAUSED, and `counts`, which are never cut.

    The other pages have their names, or short ones, where there is room for all of that, else their numbers alone.
    """
    opened: list[Piece] = [(f" {'>' if ascii else '›'} {page.heading[:width]}", "bold") for page in pages[1:]]
    rest = (*opened, *((f"  {text}", tone) for text, tone in notes))
    room = width - _cells(counts)
    names = [kind.title for kind in PAGES], [kind.short_title or kind.title for kind in PAGES], [""] * len(PAGES)
    forms = [_tabs(pages[0], *form) for form in ((" ", names[0]), *(("", some) for some in names))[width < WIDE_COLUMNS :]]
    tabs = next((form for form in forms if _cells((*form, *rest)) <= room), forms[-1])
    return (*tabs, *_cut(rest, room - _cells(tabs), ".." if ascii else "…"), *counts)


def _tabs(page: Page, gap: str, names: Sequence[str]) -> list[Piece]:
    """A piece for each page; the open one always has its whole name."""
    tabs: list[Piece] = []
    for number, kind in enumerate(PAGES, 1):
        is_here = isinstance(page, kind)
        name = f" {kind.title if is_here else names[number - 1]}".rstrip()
        tabs.append((f" {number}{name}{' ' if is_here else gap}", "here" if is_here else "dim"))
    return tabs


def _cut(pieces: Iterable[Piece], room: int, dots: str) -> Iterator[Piece]:
    """As much of them as there is room for; dots say that there is more."""
    for text, tone in pieces:
        if cell_len(text) <= room:
            yield text, tone
        elif room > len(dots):
            yield set_cell_size(clean(text), room - len(dots)) + dots, tone
        room = max(0, room - cell_len(text))


def page_notes(
    page: Page, table: Table, recorded: RecorderState | None = None, *, time: str | None, readonly: bool
) -> Iterator[tuple[str, Tone]]:
    """What differs from the normal display: `time` (paused, playing), tree, read-only, tags, filter; whether it is recorded, or why not."""
    if time:
        yield time, "warn"
    if page.tree:
        yield "tree", "accent"
    if readonly:
        yield "read-only", "dim"
    if table.tagged:
        yield f"{len(table.tagged)} tagged", "accent"
    if table.needle:
        yield f"filter {'not ' if table.inverted else ''}{table.needle}", "accent"
    if recorded is not None and recorded.path is not None:
        yield "rec", "dim"
    elif recorded is not None and recorded.reason is not None:
        yield recorded.reason, "warn" if recorded.is_failure else "dim"


class Header(Widget):
    """Drawn line by line, because it changes with every snapshot."""

    DEFAULT_CSS = "Header { height: auto; dock: top; background: $panel; color: $foreground; }"

    @dataclass
    class PageClicked(Message):
        """The name of a page was clicked."""

        number: int

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self._pages: Sequence[Page] = ()
        self._notes: Sequence[tuple[str, Tone]] = ()
        self._lines: list[tuple[Piece, ...]] = [(), ()]

    def show(self, view: View, pages: Sequence[Page], notes: Iterable[tuple[str, Tone]]) -> int:
        """The newest of everything, and how many lines that takes. Of `pages` the last is open; `notes`: what differs from the normal."""
        before = self._lines
        self.view, self._pages, self._notes = view, tuple(pages), tuple(notes)
        self._compose_lines()
        if len(before) != len(self._lines):
            self.refresh(layout=True)
        elif changed := [y for y, line in enumerate(self._lines) if line != before[y]]:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))
        return len(self._lines)

    def _compose_lines(self) -> None:
        width = self.size.width or self.view.width
        groups = summary(self.view, width)
        counts_fit = _findings(self.view, False) in groups
        glance = tuple(piece for group in groups for piece in ((" ", ""), *group, (" ", "")))
        counts = () if counts_fit else tuple(_finding_counts(self.view))
        where = page_line(self._pages, width, self._notes, counts, ascii=self.view.ascii) if self._pages else ()
        self._lines = [glance, where, *self._fault_pieces(width)]

    def on_resize(self) -> None:
        self._compose_lines()
        self.refresh()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """A click on a page's name opens it."""
        edges = accumulate(cell_len(text) for text, _ in self._lines[PAGE_LINE][: len(PAGES)])
        number = next((number for number, edge in enumerate(edges) if event.x < edge), None)
        if event.y == PAGE_LINE and number is not None:
            self.post_message(self.PageClicked(number))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 Textual asks so
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        return draw_pieces(self, self._lines[y]) if y < len(self._lines) else Strip.blank(self.size.width, self.rich_style)

    def _fault_pieces(self, width: int) -> Iterator[tuple[Piece, ...]]:
        mark, faults = "x" if self.view.ascii else "✖", fault_lines(self.view.snapshot)
        listed = faults if len(faults) <= MAX_FAULT_LINES else faults[: MAX_FAULT_LINES - 1]
        for text, since in listed:
            pieces: list[Piece] = [(f" {mark} ", "bad"), (f"{age(self.view.now - since)} " if since else "", "dim"), (text, "bad")]
            yield tuple(_cut(pieces, width, ".." if self.view.ascii else "…"))
        if len(listed) < len(faults):
            yield ((f" {mark} {plural(len(faults) - len(listed), 'more problem')}: press F", "bad"),)
