"""How the facts of the model look in a cell: the same on every page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from cockpit.limits import OLD
from cockpit.model import Actor, Gpu, Job, Level, Node, Process
from cockpit.text import UNKNOWN, age, count, percent, ratio, size
from cockpit.ui.marks import Piece, Tone, bar, heat, spark
from cockpit.ui.section import Cell
from cockpit.ui.view import View

MOST_CELLS = 16
_PATH = re.compile(r"^/(?:[^/]*/)*")

_ALIVE: dict[str, tuple[str, str, Tone]] = {"ALIVE": ("●", "+", "ok"), "DEAD": ("✖", "x", "bad"), "UNKNOWN": ("○", "?", "warn")}
_KINDS: dict[str, Tone] = {"orphan": "bad", "stale": "bad", "unknown": "warn", "foreign": "dim", "ray": "dim"}
_STATES: dict[str, Tone] = {
    "ALIVE": "ok", "RUNNING": "ok", "SUCCEEDED": "dim", "CREATED": "ok", "STOPPED": "dim", "DEAD": "dim", "REMOVED": "dim",
    "FAILED": "bad", "RESTARTING": "warn", "PENDING": "warn", "PENDING_CREATION": "warn", "DEPENDENCIES_UNREADY": "warn",
    "RESCHEDULING": "warn", "PREPARED": "warn",
}  # fmt: skip
_SHORT = {"PENDING_CREATION": "PENDING", "DEPENDENCIES_UNREADY": "DEPS UNREADY"}
_LEVELS: dict[Level, tuple[str, str, Tone]] = {
    "critical": ("◆", "!", "bad"),
    "warning": ("▲", "^", "warn"),
    "info": ("i", "i", "accent"),
}
_GLYPHS: dict[Tone, tuple[str, str]] = {"ok": ("●", "+"), "warn": ("◌", "~"), "bad": ("✖", "x"), "dim": ("·", ".")}


def old(node: Node, view: View) -> bool:
    """Whether what is shown of the node is not of now."""
    return node.state == "DEAD" or (node.seen is not None and view.now - node.seen > OLD)


def node_name(node: Node, view: View) -> Cell:
    """The node, with whether Ray has it alive; `*` marks the head."""
    glyph, plain, style = _ALIVE[node.state]
    return ((plain if view.ascii else glyph, style), (" " + node.title + ("*" if node.head else ""), ""))


def node_state(node: Node) -> str:
    """Ray's word for it; a host without a raylet has none."""
    if node.id is not None:
        return node.state
    return "not looked at" if node.seen is None else "no Ray"


def state(word: str, view: View) -> Cell:
    """A state of Ray's: a glyph, its word and a colour, so that none of them is needed alone."""
    style = _STATES.get(word, "")
    glyph, plain = _GLYPHS.get(style, (" ", " "))
    return ((f"{plain if view.ascii else glyph} {_SHORT.get(word, word)}", style),)


def level_mark(level: Level, *, ascii: bool) -> Piece:  # noqa: A002
    """One cell that says how bad a finding is, by its shape too."""
    glyph, plain, tone = _LEVELS[level]
    return (plain if ascii else glyph, tone)


def level(level: Level, view: View) -> Cell:
    """How bad a finding is: its mark and its word."""
    mark, tone = level_mark(level, ascii=view.ascii)
    return ((f"{mark} {level}", tone),)


def kind(process: Process) -> Cell:
    """What a process is to Ray."""
    return ((process.kind, _KINDS.get(process.kind, "")),)


def gpu_cells(gpus: Sequence[Gpu] | None, view: View, *, memory: bool) -> Cell:
    """One cell a GPU."""
    if gpus is None:
        return UNKNOWN
    if not gpus:
        return (("none", "dim"),)
    cells = tuple(gpu_cell(gpu, view, memory=memory) for gpu in gpus[:MOST_CELLS])
    return cells if len(gpus) <= MOST_CELLS else (*cells[:-1], ("+", "dim"))


def gpu_cell(gpu: Gpu, view: View, *, memory: bool) -> Piece:
    """How full, or how busy, one GPU is."""
    if gpu.fault:
        return ("X" if view.ascii else "✖", "bad")
    fraction = ratio(gpu.memory_used, gpu.memory_total) if memory else ratio(gpu.utilization, 100)
    return heat(fraction, ascii=view.ascii)


def mean_utilization(gpus: Sequence[Gpu] | None) -> float | None:
    """Over the GPUs that say."""
    known = [gpu.utilization for gpu in gpus or () if gpu.utilization is not None]
    return sum(known) / len(known) if known else None


def gpu_fill(gpus: Sequence[Gpu] | None) -> float | None:
    """0-1, over the GPUs that say."""
    known = [(gpu.memory_used, gpu.memory_total) for gpu in gpus or () if gpu.memory_used is not None and gpu.memory_total]
    return ratio(sum(used for used, _ in known), sum(total for _, total in known))


def reserved(node: Node, resource: str = "GPU") -> Cell:
    """What Ray has handed out, of what it was told there is."""
    quantity = node.resources.get(resource)
    if quantity is None or node.state == "DEAD":
        return UNKNOWN
    return ((f"{count(quantity.used)}/{count(quantity.total)}", "reserved"),)


def host_memory(node: Node, width: int, view: View) -> Cell:
    """A bar with the line at which Ray begins to kill."""
    mark = ratio(node.memory.kill_at, node.memory.total)
    return bar(ratio(node.memory.used, node.memory.total), width, mark=mark, ascii=view.ascii)


def share(used: float | None, total: float | None, warn: float = 0.8, bad: float = 0.95) -> Cell:
    """A percentage, coloured and marked when it is high."""
    fraction = ratio(used, total)
    if fraction is None:
        return UNKNOWN
    style: Tone = "bad" if fraction >= bad else "warn" if fraction >= warn else ""
    return ((percent(100 * fraction) + ("!" if fraction >= bad else ""), style),)


def used_of(used: float | None, total: float | None) -> str:
    """`61G/80G`."""
    return f"{size(used)}/{size(total)}"


def fullest(node: Node) -> tuple[int | None, int | None]:
    """The fullest of the file systems that Ray writes to."""
    known = [disk for disk in node.disks if disk.used is not None and disk.total]
    disk = max(known, key=lambda disk: (disk.used or 0) / (disk.total or 1), default=None)
    return (disk.used, disk.total) if disk else (None, None)


def ago(moment: float | None, view: View) -> str:
    """How long ago that was."""
    return age(None if moment is None else view.now - moment)


def moment(when: float | None, view: View) -> str:
    """A date and time of this host's clock, and how long ago that was."""
    try:
        shown = None if when is None else datetime.fromtimestamp(when).astimezone()
    except (ValueError, OverflowError, OSError):  # a clock that is far off
        shown = None
    return UNKNOWN if shown is None else f"{shown:%Y-%m-%d %H:%M:%S}  ({ago(when, view)} ago)"


def waited(since: float | None, view: View, *, at_least: bool = False) -> str:
    """How long something has waited; `>` when it may be longer."""
    return ("" if since is None or not at_least else ">") + ago(since, view)


def recent(node: Node, what: str, index: int | None, width: int, view: View) -> Cell:
    """The last minutes of a series."""
    return spark(view.history.tail(node.key, what, index, width), width, ascii=view.ascii)


def indices(process: Process) -> str:
    """The GPUs that it holds: `0,1,4`."""
    return ",".join(str(hold.index) if hold.index < 1000 else f"{hold.index // 1000}.{hold.index % 1000}" for hold in process.gpus)


def owner(process: Process, view: View) -> str:
    """Whom it belongs to, in the words of its users: its actor's class, else its job."""
    actor = view.index.actors.get(process.actor or "")
    if actor is not None:
        return actor.name or actor.class_
    return view.job_title(process.job)


def place(process: Process, view: View) -> str:
    """Where it runs: its node's name, else its host's."""
    return view.node_title(process.node) if process.node in view.index.nodes else process.host


def command(process: Process) -> str:
    """What runs; its title when the command line is not known."""
    return shortened(process.command) if process.command else process.name or UNKNOWN


def shortened(line: str) -> str:
    """A command line without the folders of its program and of its script: what tells it apart comes early."""
    words = line.split(" ")
    return " ".join(_PATH.sub("", word) if place == 0 or word.endswith(".py") else word for place, word in enumerate(words))


def actor_needs(actor: Actor) -> str:
    """What it asked for."""
    return (
        ", ".join(f"{count(amount)} {name}" for name, amount in sorted(actor.needs.items(), key=lambda item: item[0] != "GPU")) or UNKNOWN
    )


def lasted(job: Job, view: View) -> str:
    """How long it has run, or ran."""
    if job.started is None:
        return UNKNOWN
    return age((job.ended if job.ended else view.now) - job.started)
