"""Makes cells for the facts of the model, the same on every page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import GROUP_WAIT_PREFIX, Actor, Amount, Demand, Disk, Gpu, HostMemory, Job, Level, Node, PlacementGroup, Process
from cockpit.model.titles import process_title
from cockpit.monitor.history import MAX_IDLE_GAP_STEPS
from cockpit.placement import needs_words
from cockpit.text import UNKNOWN, age, count, ratio, share_percent, size
from cockpit.times.clock import CLOCK
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
"""The mean utilization of a job's GPUs is high from this percentage on."""
_PHASES: dict[str, tuple[str, str, Tone]] = {
    "high": ("█", "#", "high"), "low": ("▄", "=", "mid"), "idle": ("▁", "_", "warn"), "empty": ("·", ".", "faint"),
}  # fmt: skip
_GLYPHS: dict[Tone, tuple[str, str]] = {"ok": ("●", "+"), "warn": ("◌", "~"), "bad": ("✖", "x"), "dim": ("·", ".")}


def is_old(node: Node, view: View) -> bool:
    """Whether the node is dead, or its facts are older than `STALE_AFTER_S` seconds."""
    seen = view.cluster.machine(node).seen
    return node.state == "DEAD" or (seen is not None and view.now - seen > STALE_AFTER_S)


def node_name(node: Node, view: View) -> Cell:
    """The name of the node, with a sign for its state in Ray; `*` marks the head."""
    glyph, plain, style = _ALIVE[node.state]
    return ((plain if view.ascii else glyph, style), (" " + view.cluster.titles.of_node(node) + ("*" if node.head else ""), ""))


def node_state(node: Node) -> str:
    """Ray's state of the node; a host without a raylet is `no Ray` or `not probed`."""
    if node.id is not None:
        return node.state
    return "no Ray" if node.probed else "not probed"


def state(word: str, view: View) -> Cell:
    """A state in Ray as a sign, a word and a colour, so that each of them is enough."""
    style = _STATES.get(word, "")
    glyph, plain = _GLYPHS.get(style, (" ", " "))
    return ((f"{plain if view.ascii else glyph} {_SHORT.get(word, word)}", style),)


def level_mark(level: Level, *, ascii: bool) -> Piece:
    """The sign of a finding's level: levels differ in shape and colour."""
    glyph, plain, tone = _LEVELS[level]
    return (plain if ascii else glyph, tone)


def level(level: Level, view: View) -> Cell:
    """The level of a finding: its sign and its name."""
    mark, tone = level_mark(level, ascii=view.ascii)
    return ((f"{mark} {level}", tone),)


def is_of_other_ray(process: Process) -> bool:
    """Whether the process belongs to another Ray than the followed one."""
    return process.ours is False and process.kind in ("ray", "worker", "driver", "child")


def kind(process: Process) -> Cell:
    """The kind of a process, as the followed Ray sees it."""
    return ((OTHER_RAY, "dim"),) if is_of_other_ray(process) else ((process.kind, _KINDS.get(process.kind, "")),)


def gpu_cells(gpus: Sequence[Gpu] | None, view: View, *, memory: bool) -> Cell:
    """One cell a GPU: the share of its memory in use, or its utilization."""
    if gpus is None:
        return UNKNOWN
    if not gpus:
        return (("none", "dim"),)
    fractions = (ratio(gpu.memory_used, gpu.memory_total) if memory else ratio(gpu.utilization, 100) for gpu in gpus[:MAX_GPU_CELLS])
    cells = tuple(heat(share, lost=bool(gpu.fault), ascii=view.ascii) for share, gpu in zip(fractions, gpus, strict=False))
    return cells if len(gpus) <= MAX_GPU_CELLS else (*cells[:-1], ("+", "dim"))


def reservation(node: Node, resource: str = "GPU") -> Cell:
    """`7/8`: reserved and total amount of a resource in Ray."""
    quantity = node.resources.get(resource)
    if quantity is None or node.state == "DEAD":
        return UNKNOWN
    return ((f"{count(quantity.used)}/{count(quantity.total)}", "reserved"),)


def host_memory(node: Node, width: int, view: View) -> tuple[Piece, ...]:
    """Host memory as a bar with Ray's kill line in it."""
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
    """Used and total bytes of the fullest file system that Ray writes to."""
    known = [disk for disk in view.cluster.machine(node).disks if disk.used is not None and disk.total]
    disk = max(known, key=lambda disk: (disk.used or 0) / (disk.total or 1), default=None)
    return (disk.used, disk.total) if disk else (None, None)


def time_since(moment: float | None, view: View) -> str:
    """The time since that moment."""
    return age(None if moment is None else view.now - moment)


def say_unlisted(view: View) -> str:
    """The words for a thing that is not in the snapshot."""
    return "is no longer listed" if view.ago is None else "was not listed then"


def moment(when: float | None, view: View) -> str:
    """Date and time by this host's clock, and the time since then."""
    try:
        return (
            UNKNOWN if when is None else f"{datetime.fromtimestamp(when - CLOCK.shift()):%Y-%m-%d %H:%M:%S}  ({time_since(when, view)} ago)"
        )
    except (ValueError, OverflowError, OSError):  # the clock is far off
        return UNKNOWN


def list_of(thing: Any) -> str:
    """The Ray source that lists things of this type."""
    kinds = ((Actor, "ray.actors"), (PlacementGroup, "ray.placement_groups"), (Job, "ray.jobs"))
    return next((source for kind, source in kinds if isinstance(thing, kind)), "ray.status")


def is_listed_long_ago(thing: Any, view: View) -> bool:
    """Whether the thing was listed too long ago to know how it is now."""
    return list_of(thing) in view.index.old_lists


def seconds_known(begun: float | None, thing: Any, view: View) -> float | None:
    """Seconds since `begun`; if the list of such things is old, until the last answer."""
    return None if begun is None else max(0.0, view.index.old_lists.get(list_of(thing), view.now) - begun)


def waiting_since(thing: Actor | PlacementGroup | Job | Demand) -> float | None:
    """The moment since when something waits; unknown for tasks."""
    return None if isinstance(thing, Demand) else thing.started if isinstance(thing, Job) else thing.since


def waiting_time(thing: Actor | PlacementGroup | Job | Demand, view: View) -> str:
    """The time since something began to wait; `>` when it may be longer."""
    since = waiting_since(thing)
    may_be_longer = since is not None and isinstance(thing, Actor) and thing.at_least
    return (">" if may_be_longer else "") + age(seconds_known(since, thing, view))


def title(thing: Actor | PlacementGroup) -> str:
    """The name of an actor or group, as reasons use it: `see …`."""
    return thing.name or (thing.class_ if isinstance(thing, Actor) else thing.id[:12])


def recent_spark(node: Node, what: str, index: int | None, width: int, view: View) -> Cell:
    """The last minutes of a series. Not every step brings a new value, so a value is repeated until it is old."""
    values = view.history.tail(node.key, what, index, width + MAX_IDLE_GAP_STEPS)
    return spark(fill_short_gaps(values, MAX_IDLE_GAP_STEPS), width, ascii=view.ascii)


def mean_known(values: Sequence[float | None]) -> float | None:
    """The mean of the known values; `None` if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def phases(busy: Sequence[float | None], full: Sequence[float | None], view: View) -> Cell:
    """One sign for each moment, from the mean utilization and the mean memory use of the GPUs, in percent."""
    signs: list[Piece] = []
    for use, fill in zip(busy, full, strict=True):
        if use is None:
            signs.append((" ", ""))
            continue
        is_empty = fill is not None and fill < 100 * EMPTY_BELOW
        glyph, plain, tone = _PHASES["high" if use >= BUSY_FROM else "low" if use >= 0.5 else "empty" if is_empty else "idle"]
        signs.append((plain if view.ascii else glyph, tone))
    return merge(signs)


def gpu_indices(process: Process) -> str:
    """The GPUs that the process holds: `0,1,4`."""
    return ",".join(str(hold.index) if hold.index < 1000 else f"{hold.index // 1000}.{hold.index % 1000}" for hold in process.gpus)


def owner(process: Process, view: View) -> str:
    """The process's actor, else its job; for another Ray, the job id and the time at which that Ray started."""
    actor = view.cluster.actors.get(process.actor or "")
    if actor is not None:
        return actor.name or actor.class_
    if process.other_owner is None:
        return view.job_title(process.job)
    # `session_2026-11-22_08-06-42_896130_410` began at `08-06-42`, which is short, and hardly two begin in the same second.
    ray = "unknown session" if process.session is None else process.session[19:27] or process.session
    return f"job {process.other_job} of {ray}" if process.other_job else ray


def place(process: Process, view: View) -> str:
    """The name of the process's node, else of its host."""
    return view.cluster.place_title(process)


def command(process: Process) -> str:
    """The command line of the process, else its title."""
    return process_title(process) or UNKNOWN


def actor_needs(actor: Actor, _: View | None = None) -> str:
    """The resources that the actor needs."""
    return needs_words(actor.needs) or UNKNOWN


def actor_pid(actor: Actor, _: View | None = None) -> str:
    """The pid of the actor's process. While the actor restarts, Ray still reports the pid of the ended process, which is not shown."""
    return UNKNOWN if actor.pid is None or actor.state == "RESTARTING" else str(actor.pid)


def wait_reason(thing: Actor | PlacementGroup, view: View) -> str:
    """The reason for waiting; a long reason that another row already shows is replaced by `see` and the name of that row."""
    reason = thing.why or ""
    begin = GROUP_WAIT_PREFIX if reason.startswith(GROUP_WAIT_PREFIX) else ""
    key, name = view.index.first_reasons.get(reason.removeprefix(begin), (thing.key, ""))
    return reason if key == thing.key else f"{begin}see {name}"


def run_seconds(job: Job, view: View) -> float | None:
    """The run time of a job until now, or until its end."""
    return job.ended - job.started if job.ended is not None and job.started is not None else seconds_known(job.started, job, view)


def job_memory_bytes(job: Job, view: View) -> int | None:
    """GPU memory that the job's processes are seen to hold."""
    held = view.cluster.gpus_by_job.get(job.job or "")
    return held.memory if held else 0


def job_gpus(job: Job, view: View) -> tuple[str, str]:
    """GPU memory of the job, and the number of its GPUs; `>`: at least this much, as some holders are hidden."""
    held = view.cluster.gpus_by_job.get(job.job or "")
    if held is None:
        return (UNKNOWN, UNKNOWN) if view.index.holders_unknown else ("0B", "0")
    more = ">" if view.index.holders_unknown else ""
    return more + size(held.memory), more + str(len(held.places))
