"""The lines above every page: the cluster at a glance, where we are, and what can't be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from cockpit.limits import OLD
from cockpit.model import LEVELS, Fault, Snapshot
from cockpit.text import UNKNOWN, age, clean, count, percent, plural, ratio, size
from cockpit.ui import cells
from cockpit.ui.keys import PAGES
from cockpit.ui.marks import Piece, Tone
from cockpit.ui.pages.page import Page
from cockpit.ui.view import View

MOST_FAULTS = 3
Group = tuple[Piece, ...]


def summary(view: View, width: int) -> list[Group]:
    """The one line that says how the cluster is, in as many words as there is room for."""
    groups = {say: say(view, True) for say in GROUPS}
    for say in MOST_TELLING:
        longer = {**groups, say: say(view, False)}
        if sum(sum(cell_len(text) for text, _ in group) + 2 for group in longer.values() if group) <= width:
            groups = longer
    return [group for group in groups.values() if group]


def _ray(view: View, terse: bool) -> Group:
    cluster = view.snapshot.cluster
    if cluster.reachable is False:
        return ((f"{'x' if view.ascii else '✖'} no dashboard", "bad"),)
    if cluster.ray_version is None:
        return (("Ray ", "dim"), (UNKNOWN, ""))
    session = "" if terse or not cluster.session else f" {cluster.session.removeprefix('session_')[:19]}"
    return ((f"Ray {cluster.ray_version}", "bold"), (session, "dim"))


def _nodes(view: View, _: bool) -> Group:
    nodes = view.snapshot.nodes
    ours = [node for node in nodes or () if node.id is not None]
    if not ours:
        return (("nodes ", "dim"), (UNKNOWN, ""))
    alive = sum(node.state == "ALIVE" for node in ours)
    back = {node.ip for node in ours if node.state == "ALIVE"}
    missing = [node for node in ours if node.state != "ALIVE" and node.ip not in back]
    return (("nodes ", "dim"), (f"{alive}/{alive + len(missing)}", "bad" if missing else "ok"))


def _gpus(view: View, terse: bool) -> Group:
    nodes = view.snapshot.nodes or ()
    quantities = [node.resources["GPU"] for node in nodes if node.state == "ALIVE" and "GPU" in node.resources]
    used = [quantity.used for quantity in quantities if quantity.used is not None]
    total = sum(quantity.total or 0 for quantity in quantities)
    known = any(node.id for node in nodes)
    text = f"{count(sum(used)) if used else UNKNOWN}/{count(total) if known else UNKNOWN}"
    return (("GPUs ", "dim"), (text, "reserved"), ("" if terse else " reserved", "dim"))


def _gpu_memory(view: View, terse: bool) -> Group:
    known = view.index.gpu_memory
    if known is None:
        return (("mem ", "dim"), (UNKNOWN, ""))
    fill = 100 * (ratio(*known) or 0)
    used, total = known
    return (("mem " if terse else "GPU memory ", "dim"), (percent(fill), ""), ("" if terse else f" {size(used)}/{size(total)}", "dim"))


def _actors(view: View, terse: bool) -> Group:
    counts = view.snapshot.actor_counts
    if counts is None:
        return (("actors ", "dim"), (UNKNOWN, ""))
    pending = counts.get("PENDING_CREATION", 0) + counts.get("DEPENDENCIES_UNREADY", 0)
    restarting = counts.get("RESTARTING", 0)
    words = ("", "p", "r") if terse else (" scheduled", " pending", " restarting")
    return (
        ("actors ", "dim"), (f"{counts.get('ALIVE', 0)}{words[0]}", ""), ("/", "dim"),
        (f"{pending}{words[1]}", "warn" if pending else "dim"), ("/", "dim"), (f"{restarting}{words[2]}", "warn" if restarting else "dim"),
    )  # fmt: skip


def _jobs(view: View, terse: bool) -> Group:
    jobs = view.snapshot.jobs
    if jobs is None:
        return (("jobs ", "dim"), (UNKNOWN, ""))
    return (("jobs ", "dim"), (f"{sum(job.status == 'RUNNING' for job in jobs)}{'' if terse else ' running'}", ""))


def _age(view: View, terse: bool) -> Group:
    heard = view.snapshot.as_of.get("ray.nodes") or max((host.taken or 0 for host in view.snapshot.hosts.values()), default=0) or None
    old = heard is None or view.now - heard > OLD
    return ((f"{age(None if heard is None else view.now - heard)}{'' if terse else ' ago'}", "stale" if old else "dim"),)


def _findings(view: View, terse: bool) -> Group:
    """How many of each level; where there is no room it is said on the next line."""
    counts = () if terse else tuple(_counts(view))
    return (("findings", "dim"), *counts) if counts else ()


def _counts(view: View) -> Iterator[Piece]:
    for level in LEVELS:
        if number := view.index.found.counts.get(level):
            mark, tone = cells.level_mark(level, ascii=view.ascii)
            yield f" {mark}{number}", tone
    if hidden := len(view.index.found.hidden):
        yield f" {hidden} hidden", "dim"


GROUPS: tuple[Callable[[View, bool], Group], ...] = (_ray, _findings, _nodes, _gpus, _gpu_memory, _actors, _jobs, _age)
MOST_TELLING = (_findings, _actors, _gpus, _gpu_memory, _age, _jobs, _ray)
"""Which of them get their words first."""


def worst(snapshot: Snapshot) -> list[tuple[str, float]]:
    """What can't be believed, a sentence each. A dashboard that doesn't answer is one fault, not seven."""
    faults = snapshot.faults
    if any(fault.source == "ray.identity" for fault in faults):
        faults = tuple(fault for fault in faults if fault.source == "ray.identity" or not fault.source.startswith("ray."))
    said = list({_sentence(fault): fault.since for fault in reversed(faults)}.items())[::-1]  # the same cause once, since its first
    dead = [node for node in snapshot.nodes or () if node.state == "DEAD"]
    living = {node.ip for node in snapshot.nodes or () if node.state == "ALIVE"}
    return said + [(f"{node.title} is dead: {node.message or 'Ray gave no reason'}", 0.0) for node in dead if node.ip not in living]


def _sentence(fault: Fault) -> str:
    return f"{fault.host}: {fault.text}" if fault.host and fault.host not in fault.text else fault.text


def trail(pages: Sequence[Page], width: int, notes: Iterable[tuple[str, Tone]], *, ascii: bool) -> tuple[Piece, ...]:  # noqa: A002
    """The line of pages: which is open, what has been opened from there, and what is unusual about it."""
    pieces: list[Piece] = []
    for number, page in enumerate(PAGES, 1):
        here = isinstance(pages[0], page)
        title = f" {page.title}" if here or width >= 100 or len(pages) == 1 else ""
        pieces.append((f" {number}{title}" + " " * (here or width >= 100), "here" if here else "dim"))  # type: ignore[arg-type]
    pieces += [(f" {'>' if ascii else '›'} {page.heading}", "bold") for page in pages[1:]]
    return (*pieces, *((f"  {text}", tone) for text, tone in notes))


class Header(Widget):
    """Drawn line by line: it changes with every snapshot, and must cost nothing."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"header--{name}" for name in ("dim", "ok", "warn", "bad", "bold", "reserved", "stale", "here", "accent")
    }
    DEFAULT_CSS = """
    Header {
        height: auto; dock: top; background: $panel; color: $foreground;
        & > .header--dim { color: $text-muted; }
        & > .header--ok { color: $text-success; }
        & > .header--warn { color: $text-warning; text-style: bold; }
        & > .header--bad { color: $text-error; text-style: bold; }
        & > .header--bold { text-style: bold; }
        & > .header--reserved { color: $reserved; }
        & > .header--stale { color: $stale; }
        & > .header--accent { color: $text-accent; }
        & > .header--here { background: $primary; color: $background; text-style: bold; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self._where: tuple[Piece, ...] = ()
        self._lines: list[tuple[Piece, ...]] = [(), ()]
        self._faults: list[tuple[str, float]] = []

    def show(self, view: View, where: tuple[Piece, ...]) -> None:
        """The newest of everything; `where` is the line of pages."""
        before = len(self._lines)
        self.view, self._where, self._faults = view, where, worst(view.snapshot)
        self._compose_lines()
        self.refresh(layout=before != len(self._lines))

    def _compose_lines(self) -> None:
        groups = summary(self.view, self.size.width)
        told = _findings(self.view, False) in groups
        glance = tuple(piece for group in groups for piece in ((" ", ""), *group, (" ", "")))
        where = self._where if told else (*self._where, *_counts(self.view))
        self._lines = [glance, where, *self._said()]

    def on_resize(self) -> None:
        """More room, more words."""
        self._compose_lines()
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 Textual asks so
        """Two lines, and one for each fault."""
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """One line of it."""
        return self._strip(self._lines[y]) if y < len(self._lines) else Strip.blank(self.size.width, self.rich_style)

    def _said(self) -> Iterator[tuple[Piece, ...]]:
        mark = "x" if self.view.ascii else "✖"
        shown = self._faults if len(self._faults) <= MOST_FAULTS else self._faults[: MOST_FAULTS - 1]
        for text, since in shown:
            yield (
                (f" {mark} ", "bad"),
                (f"{age(self.view.now - since)} " if since else "", "dim"),
                (text, "bad"),
            )  # a pane may cut the end
        if len(shown) < len(self._faults):
            yield ((f" {mark} and {plural(len(self._faults) - len(shown), 'more fault')}: see them with F", "bad"),)

    def _strip(self, pieces: Iterable[Piece]) -> Strip:
        base = self.rich_style
        segments = [Segment(clean(text), base + self._style(name)) for text, name in pieces]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"header--{name}", partial=True) if name else Style.null()
