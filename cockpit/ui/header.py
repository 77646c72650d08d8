"""Draws the lines above every page: a summary of the cluster, the list of pages, and failing sources."""

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
from cockpit.model import LEVELS, Snapshot
from cockpit.report.faults import also_down, by_cause
from cockpit.text import UNKNOWN, age, clean, count, plural, ratio, share_percent, size
from cockpit.times.moments import format_time
from cockpit.ui import cells
from cockpit.ui.marks import Piece, Tone
from cockpit.ui.pages import PAGES
from cockpit.ui.section import Page
from cockpit.ui.styles import draw_pieces
from cockpit.ui.table import Table
from cockpit.ui.view import View

if TYPE_CHECKING:
    from cockpit.recording.recorder import RecorderState

MAX_FAULT_LINES = 3
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ADDRESS_CELLS = 12
"""Length of a short address, for which groups are dropped if necessary: `:41207`, `gpu-17:8265`."""
MAX_ADDRESS_CELLS = 60
"""Length up to which an address is shown whole."""
WIDE_COLUMNS = 100
"""Width from which on there are blanks between the names of pages."""
PAGE_LINE = 1
"""Number of the line with the names of the pages, from 0."""
Group = tuple[Piece, ...]
"""The text of one number of the summary, such as `nodes 2/2`."""


def summary(view: View, width: int) -> list[Group]:
    """The summary of the cluster in one line, as groups that fit into `width`; of the past it begins with the time."""
    if view.ago is None:
        return _summary(view, width)
    # Drawn in reverse, so that nobody takes the numbers after it for the present.
    when: Piece = (f" PAST {format_time(view.now, view.now + view.ago)} ", "past")
    past: Group = (when, (f" {age(view.ago)} ago", "bold"))
    if _width((past, *(make(view, True) for make in GROUPS))) > width:
        past = (when, (f" {age(view.ago)}", "bold"))
    return [past, *_summary(view, width - _width([past]))]


def _summary(view: View, width: int) -> list[Group]:
    cluster = view.snapshot.cluster
    session = (cluster.session or "").removeprefix("session_")[:19]
    are_several = len({each.name for each in view.snapshot.sessions or () if each.live}) > 1
    ray: Piece = ("Ray", "dim")
    link = " "
    if cluster.reachable is False:
        ray, link = (f"{'x' if view.ascii else '✖'} no dashboard", "bad"), " at "

    # All groups in their short form, without those that would leave no room for a short address.
    groups = {make: make(view, True) for make in GROUPS}
    for make in LESS_THAN_THE_ADDRESS if view.ago is None else ():
        if _width((*groups.values(), (ray, (link + _address(view, ADDRESS_CELLS), "")))) > width:
            del groups[make]

    # Ray with its address, the longest form that fits. If several Rays live here, the time of the session's start distinguishes them.
    whole_address = _address(view, MAX_ADDRESS_CELLS)
    room = width - _width(groups.values()) - len(ray[0] + link) - 2
    forms: list[Group] = [(ray, (link + whole_address, "")), (ray, (link + _address(view, room), "")), (ray,)]
    if are_several and session:
        forms.insert(0, (ray, (f" {whole_address} {session[11:]}", "")))
    first = next((form for form in forms if _width((form, *groups.values())) <= width), ())

    # The groups in their long form, then Ray with version and session, as long as there is room.
    for make in GROUPS_BY_PRIORITY:
        longer = {**groups, make: make(view, False)} if make in groups else groups
        if _width((first, *longer.values())) <= width:
            groups = longer
    if cluster.reachable is not False and cluster.ray_version is not None:
        versioned: Group = ((f"Ray {cluster.ray_version} ", "bold"), (whole_address, ""))
        forms = [(*versioned, (f" {session}", "dim")), *(() if are_several else (versioned,))]
        first = next((form for form in forms if _width((form, *groups.values())) <= width), first)

    shown = [group for group in (first, *groups.values()) if group]
    while len(shown) > 1 and _width(shown) > width:  # drop whole groups: half a number would be a wrong number
        shown.pop()
    return shown


def _width(groups: Iterable[Group]) -> int:
    return sum(_cells(group) + 2 for group in groups if group)


def _cells(pieces: Iterable[Piece]) -> int:
    return sum(cell_len(clean(text)) for text, _ in pieces)


def _address(view: View, room: int) -> str:
    """`gpu-17.cluster.local:8265`; if too long `gpu-17:8265`, for this host `:8265`; else its end, where the port is."""
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
    unseen = view.index.unseen_gpus
    return (
        ("GPU mem " if terse else "GPU memory ", "dim"),
        (share_percent(ratio(used, total)), ""),
        ("" if terse else f" {size(used)}/{size(total)}", "dim"),
        (f", {unseen} unseen" if unseen else "", "warn"),
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
    read_at = view.snapshot.as_of.get("ray.nodes") or max((host.taken or 0 for host in view.snapshot.hosts.values()), default=0) or None
    is_old = read_at is None or view.now - read_at > STALE_AFTER_S
    if view.ago is not None and not is_old:
        return ()  # so nobody confuses it with the age of the moment
    return ((f"{age(None if read_at is None else view.now - read_at)}{'' if terse else ' ago'}", "stale" if is_old else "dim"),)


def _findings(view: View, terse: bool) -> Group:
    """Number of findings of each level. Without room for it here, the next line shows it."""
    counts = () if terse else tuple(_finding_counts(view))
    return (("findings", "dim"), *counts) if counts else ()


def _finding_counts(view: View) -> Iterator[Piece]:
    for level in LEVELS:
        if number := view.index.findings.counts.get(level):
            mark, tone = cells.level_mark(level, ascii=view.ascii)
            yield f" {mark}{number}", tone


def _hidden(view: View, _: bool) -> Group:
    """Number of hidden findings of each level, so that a hidden critical one is not forgotten."""
    hidden = Counter(finding.level for finding in view.index.findings.hidden)
    marks = [f"{cells.level_mark(level, ascii=view.ascii)[0]}{hidden[level]}" for level in LEVELS if hidden[level]]
    return ((f"{' '.join(marks)} hidden", "dim"),) if marks else ()


GROUPS: tuple[Callable[[View, bool], Group], ...] = (_findings, _hidden, _nodes, _gpus, _gpu_memory, _actors, _jobs, _age)
GROUPS_BY_PRIORITY = (_findings, _actors, _gpus, _gpu_memory, _age, _jobs)
"""The order in which groups get their long form."""
LESS_THAN_THE_ADDRESS = (_gpu_memory, _jobs, _actors, _gpus)
"""Groups that are dropped, in this order, to keep the address: a user who can't see which Ray this is may stop the wrong one.

The past needs no address, because nothing can be stopped there.
"""


def fault_lines(snapshot: Snapshot) -> list[tuple[str, float]]:
    """A sentence for each cause of failing sources and for each dead node, with the time of its beginning (0: unknown)."""
    lines: list[tuple[str, float]] = []
    for fault in by_cause(snapshot.faults):
        title = snapshot.index.titles.of_host(fault.host or "")
        place = f"{title}: " if fault.host and fault.host not in fault.text and title not in fault.text else ""
        lines.append((f"{place}{fault.text}{also_down(fault)}", fault.since))
    dead = [node for node in snapshot.nodes or () if node.state == "DEAD"]
    living = {node.ip for node in snapshot.nodes or () if node.state == "ALIVE"}
    return lines + [(f"{node.title} is dead: {node.message or 'Ray gives no reason'}", 0.0) for node in dead if node.ip not in living]


def page_line(
    pages: Sequence[Page],
    width: int,
    notes: Iterable[tuple[str, Tone]],
    counts: Sequence[Piece] = (),
    *,
    ascii: bool,
) -> tuple[Piece, ...]:
    """The line of pages, with the detail pages opened from the open one, notes such as PAUSED, and `counts`, which are never cut.

    The other pages are shown by name, by short name, or by number alone, depending on the room.
    """
    opened: list[Piece] = [(f" {'>' if ascii else '›'} {page.heading[:width]}", "bold") for page in pages[1:]]
    rest = (*opened, *((f"  {text}", tone) for text, tone in notes))
    room = width - _cells(counts)
    names = [kind.title for kind in PAGES], [kind.short_title or kind.title for kind in PAGES], [""] * len(PAGES)
    forms = [_tabs(pages[0], *form) for form in ((" ", names[0]), *(("", some) for some in names))[width < WIDE_COLUMNS :]]
    tabs = next((form for form in forms if _cells((*form, *rest)) <= room), forms[-1])
    return (*tabs, *_cut(rest, room - _cells(tabs), ".." if ascii else "…"), *counts)


def _tabs(page: Page, gap: str, names: Sequence[str]) -> list[Piece]:
    """A piece for each page. The open page always has its whole name."""
    tabs: list[Piece] = []
    for number, kind in enumerate(PAGES, 1):
        is_here = isinstance(page, kind)
        name = f" {kind.title if is_here else names[number - 1]}".rstrip()
        tabs.append((f" {number}{name}{' ' if is_here else gap}", "here" if is_here else "dim"))
    return tabs


def _cut(pieces: Iterable[Piece], room: int, dots: str) -> Iterator[Piece]:
    """The pieces cut to `room` cells; `dots` mark where text is missing."""
    for text, tone in pieces:
        if cell_len(text) <= room:
            yield text, tone
        elif room > len(dots):
            yield set_cell_size(clean(text), room - len(dots)) + dots, tone
        room = max(0, room - cell_len(text))


def page_notes(
    page: Page, table: Table, recorded: RecorderState | None = None, *, time: str | None, readonly: bool
) -> Iterator[tuple[str, Tone]]:
    """Notes on the state of the display: `time` (paused, playing), tree, read-only, tags, filter; `rec`, or why nothing is recorded."""
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
    """The header. Draws its lines itself, because they change with every snapshot."""

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
        """Draw new data and return the number of lines. The last of `pages` is open. `notes`: see `page_notes`."""
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
        self._lines = [glance, where]
        mark, dots = ("x", "..") if self.view.ascii else ("✖", "…")
        faults = fault_lines(self.view.snapshot)
        listed = faults if len(faults) <= MAX_FAULT_LINES else faults[: MAX_FAULT_LINES - 1]
        for text, since in listed:
            pieces: list[Piece] = [(f" {mark} ", "bad"), (f"{age(self.view.now - since)} " if since else "", "dim"), (text, "bad")]
            self._lines.append(tuple(_cut(pieces, width, dots)))
        if len(listed) < len(faults):
            self._lines.append(((f" {mark} {plural(len(faults) - len(listed), 'more problem')}: press F", "bad"),))

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
