"""Cells for the facts of the model, the same on every page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cockpit.clock import CLOCK
from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import GROUP_WAIT_PREFIX, Actor, Amount, Demand, Disk, Gpu, HostMemory, Job, Level, Node, PlacementGroup, Process
from cockpit.model.titles import process_title
from cockpit.monitor.history import MAX_IDLE_GAP_STEPS
from cockpit.placement import needs_words
from cockpit.text import UNKNOWN, age, count, ratio, share_percent, size
from cockpit.ui.marks import EMPTY_BELOW, Piece, Tone, bar, fill_short_gaps, heat, merge, spark
from cockpit.ui.section import Cell
from cockpit.ui.view import View

MAX_GPU_CELLS = 16
OTHER_RAY = "other Ray"

_ALIVE: dict[str, tuple[str, str, Tone]] = {"ALIVE": ("●", "+", "ok"), "DEAD": ("✖", "x", "bad"), "UNKNOWN": ("○", "?", "warn")}
_KINDS: dict[str, Tone] = {"orphan": "bad", "stale": "bad", "unknown": "warn", "foreign": "dim", "ray": "dim"}
_STATES: dict[str, Tone] = {
    "ALIVE": "ok", "RUNNING": "ok", "SUCCEEDED": "dim", "CREATED": "ok", "STOPPED": "dim", "DEAD": "dim", "REMOVED": "dim",
    "FAILED": "bad", "RESTARTING": "warn", "PENDING": "warn", "PENDING_CREATION": "warn", "DEPENDENCIES_UNREADY": "warn",
    "RESCHEDULING": "warn", "PREPARED": "warn",
}  # fmt: skip
_SHORT = {"PENDING_CREATION": "PENDING", "DEPENDENCIES_UNREADY": "DEPS UNREADY"}
_LEVELS: dict[Level, tuple[str, str, Tone]] = {"critical": ("◆", "!", "bad"), "warning": ("▲", "^", "warn"), "info": ("i", "i", "accent")}
BUSY_FROM = 50
"""Percent, mean use of a job's GPUs: from here on it is high."""
_PHASES: dict[str, tuple[str, str, Tone]] = {
    "high": ("█", "#", "high"), "low": ("▄", "=", "mid"), "idle": ("▁", "_", "warn"), "empty": ("·", ".", "faint"),
}  # fmt: skip
_GLYPHS: dict[Tone, tuple[str, str]] = {"ok": ("●", "+"), "warn": ("◌", "~"), "bad": ("✖", "x"), "dim": ("·", ".")}


def is_old(node: Node, view: View) -> bool:
    """Whether the node is dead or its facts are older than `STALE_AFTER_S` seconds."""
    seen = view.cluster.machine(node).seen
    return node.state == "DEAD" or (seen is not None and view.now - seen > STALE_AFTER_S)


def node_name(node: Node, view: View) -> Cell:
    """The node, with whether Ray has it alive; `*` marks the head."""
    glyph, plain, style = _ALIVE[node.state]
    return ((plain if view.ascii else glyph, style), (" " + view.cluster.titles.of_node(node) + ("*" if node.head else ""), ""))


def node_state(node: Node) -> str:
    """Ray's state of the node; for a host without a raylet, whether it was probed."""
    if node.id is not None:
        return node.state
    return "no Ray" if node.probed else "not probed"


def state(word: str, view: View) -> Cell:
    """A state of Ray's: a glyph, its word and a colour, so that none of them is needed alone."""
    style = _STATES.get(word, "")
    glyph, plain = _GLYPHS.get(style, (" ", " "))
    return ((f"{plain if view.ascii else glyph} {_SHORT.get(word, word)}", style),)


def level_mark(level: Level, *, ascii: bool) -> Piece:
    """One cell that says how bad a finding is, by its shape too."""
    glyph, plain, tone = _LEVELS[level]
    return (plain if ascii else glyph, tone)


def level(level: Level, view: View) -> Cell:
    """How bad a finding is: its mark and its word."""
    mark, tone = level_mark(level, ascii=view.ascii)
    return ((f"{mark} {level}", tone),)


def is_of_other_ray(process: Process) -> bool:
    """Whether it works for another Ray than the one that is followed."""
    return process.ours is False and process.kind in ("ray", "worker", "driver", "child")


def kind(process: Process) -> Cell:
    """What a process is to the Ray that is followed."""
    return ((OTHER_RAY, "dim"),) if is_of_other_ray(process) else ((process.kind, _KINDS.get(process.kind, "")),)


def gpu_cells(gpus: Sequence[Gpu] | None, view: View, *, memory: bool) -> Cell:
    """One cell a GPU: how full, or how busy, it is."""
    if gpus is None:
        return UNKNOWN
    if not gpus:
        return (("none", "dim"),)
    fractions = (ratio(gpu.memory_used, gpu.memory_total) if memory else ratio(gpu.utilization, 100) for gpu in gpus[:MAX_GPU_CELLS])
    cells = tuple(heat(share, lost=bool(gpu.fault), ascii=view.ascii) for share, gpu in zip(fractions, gpus, strict=False))
    return cells if len(gpus) <= MAX_GPU_CELLS else (*cells[:-1], ("+", "dim"))


def reservation(node: Node, resource: str = "GPU") -> Cell:
    """`7/8`: what Ray has reserved of a resource, and the total."""
    quantity = node.resources.get(resource)
    if quantity is None or node.state == "DEAD":
        return UNKNOWN
    return ((f"{count(quantity.used)}/{count(quantity.total)}", "reserved"),)


def host_memory(node: Node, width: int, view: View) -> tuple[Piece, ...]:
    """A bar with the kill line in it."""
    memory = view.cluster.machine(node).memory
    return bar(ratio(memory.used, memory.total), width, mark=ratio(memory.kill_at, memory.total), ascii=view.ascii)


def share(used: float | None, total: float | None, warn: float = 0.8, bad: float = 0.95) -> Cell:
    """A percentage, coloured and marked when it is high."""
    fraction = ratio(used, total)
    if fraction is None:
        return UNKNOWN
    style: Tone = "bad" if fraction >= bad else "warn" if fraction >= warn else ""
    return ((share_percent(fraction) + ("!" if fraction >= bad else ""), style),)


def used_of(amount: Amount | HostMemory | Disk) -> str:
    """`61G/80G`."""
    return f"{size(amount.used)}/{size(amount.total)}"


def fullest_disk(node: Node, view: View) -> tuple[int | None, int | None]:
    """The fullest of the file systems that Ray writes to."""
    known = [disk for disk in view.cluster.machine(node).disks if disk.used is not None and disk.total]
    disk = max(known, key=lambda disk: (disk.used or 0) / (disk.total or 1), default=None)
    return (disk.used, disk.total) if disk else (None, None)


def ago(moment: float | None, view: View) -> str:
    """How long ago that was."""
    return age(None if moment is None else view.now - moment)


def say_unlisted(view: View) -> str:
    """What is said of a thing that the snapshot lacks."""
    return "is no longer listed" if view.ago is None else "was not listed then"


def moment(when: float | None, view: View) -> str:
    """A date and time of this host's clock, and how long ago that was."""
    try:
        return UNKNOWN if when is None else f"{datetime.fromtimestamp(when - CLOCK.shift()):%Y-%m-%d %H:%M:%S}  ({ago(when, view)} ago)"
    except (ValueError, OverflowError, OSError):  # a clock that is far off
        return UNKNOWN


def list_of(thing: Any) -> str:
    """The source that lists a thing of Ray's."""
    kinds = ((Actor, "ray.actors"), (PlacementGroup, "ray.placement_groups"), (Job, "ray.jobs"))
    return next((source for kind, source in kinds if isinstance(thing, kind)), "ray.status")


def is_listed_long_ago(thing: Any, view: View) -> bool:
    """Whether the list that it stands in is too old to say how it is now."""
    return list_of(thing) in view.index.old_lists


def seconds_known(begun: float | None, thing: Any, view: View) -> float | None:
    """Seconds from `begun` on for which a thing of Ray's is known to be as it is drawn: until its list grew old."""
    return None if begun is None else max(0.0, view.index.old_lists.get(list_of(thing), view.now) - begun)


def waiting_time(thing: Actor | PlacementGroup | Job | Demand, since: float | None, view: View, *, at_least: bool = False) -> str:
    """How long something has waited; `>` when it may be longer."""
    return (">" if at_least and since is not None else "") + age(seconds_known(since, thing, view))


def title(thing: Actor | PlacementGroup) -> str:
    """What it is called where a reason says `see …`."""
    return thing.name or (thing.class_ if isinstance(thing, Actor) else thing.id[:12])


def recent_spark(node: Node, what: str, index: int | None, width: int, view: View) -> Cell:
    """The last minutes of a series. Facts come a little more seldom than every step, from a recording too: they hold until they are old."""
    values = view.history.tail(node.key, what, index, width + MAX_IDLE_GAP_STEPS)
    return spark(fill_short_gaps(values, MAX_IDLE_GAP_STEPS), width, ascii=view.ascii)


def mean_known(values: Sequence[float | None]) -> float | None:
    """Of those that are known; `None` where none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def phases(busy: Sequence[float | None], full: Sequence[float | None], view: View) -> Cell:
    """A cell for each moment, by how busy and how full the GPUs were on average, in percent."""
    return merge((" ", "") if use is None else _phase(use, fill, view) for use, fill in zip(busy, full, strict=True))


def _phase(busy: float, full: float | None, view: View) -> Piece:
    name = "high" if busy >= BUSY_FROM else "low" if busy >= 0.5 else "empty" if full is not None and full < 100 * EMPTY_BELOW else "idle"
    glyph, plain, tone = _PHASES[name]
    return (plain if view.ascii else glyph, tone)


def gpu_indices(process: Process) -> str:
    """The GPUs that it holds: `0,1,4`."""
    return ",".join(str(hold.index) if hold.index < 1000 else f"{hold.index // 1000}.{hold.index % 1000}" for hold in process.gpus)


def owner(process: Process, view: View) -> str:
    """Its actor's name or class, else its job; for another Ray, the job id and the time at which that Ray started."""
    actor = view.cluster.actors.get(process.actor or "")
    if actor is not None:
        return actor.name or actor.class_
    if process.other_owner is None:
        return view.job_title(process.job)
    # `session_2026-11-22_08-06-42_896130_410` began at `08-06-42`: short, and there is hardly another one of the same second
    ray = "unknown session" if process.session is None else process.session[19:27] or process.session
    return f"job {process.other_job} of {ray}" if process.other_job else ray


def place(process: Process, view: View) -> str:
    """Where it runs: the name of its node, else of its host."""
    return view.cluster.place_title(process)


def command(process: Process) -> str:
    """What runs; its title when the command line is not known."""
    return process_title(process) or UNKNOWN


def actor_needs(actor: Actor, _: View | None = None) -> str:
    """What it asked for."""
    return needs_words(actor.needs) or UNKNOWN


def actor_pid(actor: Actor, _: View | None = None) -> str:
    """Of the process that it has: while it restarts Ray still tells that of the one that has ended."""
    return UNKNOWN if actor.pid is None or actor.state == "RESTARTING" else str(actor.pid)


def why(thing: Actor | PlacementGroup, view: View) -> str:
    """Why it waits; a long reason that another row already shows is replaced by `see` and the name of that row."""
    reason = thing.why or ""
    begin = GROUP_WAIT_PREFIX if reason.startswith(GROUP_WAIT_PREFIX) else ""
    key, name = view.index.first_reasons.get(reason.removeprefix(begin), (thing.key, ""))
    return reason if key == thing.key else f"{begin}see {name}"


def run_seconds(job: Job, view: View) -> float | None:
    """How long it has run, or ran."""
    return job.ended - job.started if job.ended is not None and job.started is not None else seconds_known(job.started, job, view)


def job_memory_bytes(job: Job, view: View) -> int | None:
    """GPU memory that its processes are seen to hold."""
    held = view.cluster.gpus_by_job.get(job.job or "")
    return held.memory if held else 0


def job_gpus(job: Job, view: View) -> tuple[str, str]:
    """GPU memory that it holds, and on how many GPUs; `>`: what is not seen may be its too."""
    held = view.cluster.gpus_by_job.get(job.job or "")
    if held is None:
        return (UNKNOWN, UNKNOWN) if view.index.holders_unknown else ("0B", "0")
    more = ">" if view.index.holders_unknown else ""
    return more + size(held.memory), more + str(len(held.places))
