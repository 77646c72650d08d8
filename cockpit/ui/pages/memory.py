"""Makes the page of one node's host memory: its past, Ray's kill line, a forecast, and the jobs and actors that hold it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cockpit.findings.memory import kill_order, newest_worker
from cockpit.findings.memory_trend import MAX_STEPS, STEP_S, Holding, KillLine, MemoryOwner, charge_left, kill_line, plausible_bytes
from cockpit.findings.trend import Trend, seconds_until
from cockpit.model import SUPERVISOR, Finding, HostMemory, Node, Snapshot
from cockpit.model.about import find_things
from cockpit.monitor.history import MAX_IDLE_GAP_STEPS
from cockpit.text import UNKNOWN, ratio, size
from cockpit.ui import cells
from cockpit.ui.columns import number_column
from cockpit.ui.marks import Tone, bar, chart, fill_short_gaps, spark
from cockpit.ui.section import Cell, Column, Page, PageRow, Pairs, Section, facts
from cockpit.ui.view import View

CHART_ROWS, CHART_ROWS_LOW = 8, 5
"""Rows of the chart on a wide and on a narrow screen."""
FORECAST_S = 300.0
"""The chart shows the forecast for this long: a trend of two minutes says little about more."""
MAX_FORECAST_S = 3600.0
"""A forecast further ahead than this names no time."""
SPARK_CELLS = 30
WIDE_COLUMNS = 140
OWNERS, GROWTH = "memory-owners", "GROWTH"
"""The key of the section of owners, and the title of its column with their growth."""
BY_GROWTH = (GROWTH, False)
"""The order of the owners by growth: the fastest first."""
AVAILABLE = "available"
"""The key of the row for memory that is not in use."""
CHART_HEADROOM = 1.25
"""The chart's top, as a multiple of the kill line or of the highest use."""


class OwnerRow(PageRow, frozen=True):
    """The memory of one owner."""

    holding: Holding
    past: Sequence[float | None]
    top: float
    """The most that any owner of the page has held: all rows are drawn on this scale."""
    about: Any

    @property
    def key(self) -> str:
        return f"memory:{self.holding.owner.key}"


class MemoryPage(Page):
    """One node's host memory."""

    switches = frozenset({"growth"})

    def __init__(self, node: Node) -> None:
        self.node = node
        self._title = node.title

    @property
    def heading(self) -> str:
        return f"Memory {self._title}"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        node = next((node for node in view.snapshot.nodes or () if node.key == self.node.key), None)
        if node is None:
            return (facts("gone", "MEMORY", [("gone", f"{self._title} {cells.say_unlisted(view)}.")], view.width),)
        self._title = view.cluster.titles.of_node(node)
        trend, line = view.history.memory.trend(node.key), kill_line(view.cluster.machine(node).memory)
        return (
            facts("memory", "MEMORY", _facts(node, line, trend, view), view.width),
            facts("memory-past", "OVER TIME", _chart_lines(node, line, trend, view), view.width),
            _owners_section(node, view),
        )


def _facts(node: Node, line: KillLine | None, trend: Trend | None, view: View) -> Pairs:
    machine = view.cluster.machine(node)
    memory = machine.memory
    drawn = bar(ratio(memory.used, memory.total), 24, mark=ratio(line.at, memory.total) if line else None, ascii=view.ascii)
    yield "in use", (*drawn, (f" {cells.used_of(memory)}", ""), (_counted_words(memory), "dim"))
    if memory.whole:
        yield "host", f"{cells.used_of(memory.whole)} in use"
    if memory.host_total:
        yield "limit", f"{size(memory.total)} by cgroup; the host has {size(memory.host_total)}"
    yield "kill line", kill_line_words(memory)
    yield "killed first", _killed_first(node, view)
    yield "growth", UNKNOWN if trend is None else f"{_rate(trend.slope)} in the last two minutes"
    yield "forecast", _forecast(memory, line, trend)
    yield "data from", f"{'probe on this node' if node.probed else 'Ray agent'}, {cells.time_since(machine.seen, view)} ago"
    if view.width < WIDE_COLUMNS:
        return
    if memory.shared is not None:
        store = size(node.object_store.used)
        yield "shared memory", f"{size(memory.shared)}, including {size(machine.shm.used)} in /dev/shm; Ray's object store uses {store}"
    yield "HOLDS", f"memory of the processes; shared memory is counted once. All rows add up to {size((memory.whole or memory).total)}"


def _counted_words(memory: HostMemory) -> str:
    """What `in use` counts, if it is not the memory of the host."""
    if memory.isolation is None:
        return " with swap, which Ray counts" if memory.whole else ""
    return f" by Ray's workers, which are isolated; {size(memory.charged)} with file cache"


def kill_line_words(memory: HostMemory) -> str:
    """The use above which Ray kills workers, and how much is left until then."""
    line = kill_line(memory)
    if line is None:
        return UNKNOWN
    used, left_to_charge = plausible_bytes(memory.used), charge_left(memory)
    left = None if used is None else line.at - used if left_to_charge is None else min(line.at - used, left_to_charge)
    room = "" if left is None or left <= 0 else f", {size(left)} left"
    assumed = " (its default; the real setting is unknown)" if line.assumed else ""
    return f"Ray kills workers above {size(line.at)}{assumed}{room}"


def _killed_first(node: Node, view: View) -> str:
    """The newest worker, and Ray's order on a wide screen. Only Ray knows which workers can be retried, so the first one is not named."""
    order = f"{kill_order(view.snapshot.cluster.ray_version)}; never a driver"
    newest = newest_worker(_holdings(node, view) or ())
    if newest is None:
        return order
    process, held = newest
    owner, age = _owner_text(held.owner, view), cells.time_since(process.started, view)
    worker = f"newest worker: pid {process.pid}, {owner}, {size(process.rss)}, {age} old"
    return f"{worker}. Ray's order: {order}" if view.width >= WIDE_COLUMNS else worker


def _forecast(memory: HostMemory, line: KillLine | None, trend: Trend | None) -> Cell:
    if trend is None or line is None or memory.used is None:
        return UNKNOWN
    left = seconds_until(memory.used, line.at, trend.slope)
    if left is None or left > MAX_FORECAST_S:
        return f"Ray kills no worker within {MAX_FORECAST_S / 60:.0f} min at this rate"
    if left and not trend.steady:
        return "unknown: the growth is not steady"
    if left == 0:
        return (("above the kill line: Ray kills workers", "bad"),)
    words = f"at {_rate(trend.slope)} Ray starts killing workers in ~{max(1.0, left / 60):.0f} min"
    return ((words, "bad" if left <= FORECAST_S else "warn"),)


def _rate(slope: float) -> str:
    """`+1.2G/min`."""
    return f"{'-' if slope < 0 else '+'}{size(abs(60 * slope))}/min"


def _chart_lines(node: Node, line: KillLine | None, trend: Trend | None, view: View) -> Pairs:
    """The rows of the chart with their labels: the past, and the forecast if the trend is steady."""
    memory = view.cluster.machine(node).memory
    total, used = plausible_bytes(memory.total), plausible_bytes(memory.used)
    if not total:
        yield "", UNKNOWN
        return
    each, height = (2, CHART_ROWS) if view.width >= WIDE_COLUMNS else (4, CHART_ROWS_LOW)  # steps of the history in a column
    past = downsample(fill_short_gaps(view.history.memory.tail(node.key, MAX_STEPS), MAX_IDLE_GAP_STEPS), MAX_STEPS // each)
    ahead: list[float] = []
    if used is not None and trend is not None and trend.steady:
        columns = range(1, 1 + int(FORECAST_S / (each * STEP_S)))
        ahead = [used + trend.slope * each * STEP_S * column for column in columns]

    # The scale ends at the total, unless the kill line lies far below it.
    top, marked = float(total), None
    if line is not None:
        highest = max((value for value in past if value is not None), default=0.0)
        top = float(min(max(total, line.at), CHART_HEADROOM * max(line.at, highest)))
        marked = height - 1 - min(height - 1, int(line.at / top * height))
    rows = chart(past, ahead, height, top, mark=line.at if line else None, ascii=view.ascii)
    for number, row in enumerate(rows):
        label = size(top) if number == 0 else "0" if number == height - 1 else ""
        yield f"kill {size(line.at)}" if line and number == marked else label, row

    begin = f"-{STEP_S * MAX_STEPS / 60:.0f} min"
    now = ("now" if view.ago is None else "then").rjust(len(past) - len(begin))
    yield "", ((begin + now + (f"+{FORECAST_S / 60:.0f} min".rjust(len(ahead)) if ahead else ""), "dim"),)


def downsample(values: Sequence[float | None], width: int) -> list[float | None]:
    """Reduce the values to `width` columns: the greatest of each column, or `None` if no value of it is known."""
    each = max(1, -(-len(values) // width))
    parts = [[value for value in values[at : at + each] if value is not None] for at in range(0, len(values), each)]
    return [max(part, default=None) for part in parts]


def _owners_section(node: Node, view: View) -> Section[OwnerRow]:
    memory, host, held = view.cluster.machine(node).memory, view.cluster.host_of(node), _holdings(node, view)
    rows: list[OwnerRow] | None = None
    if host is not None and held is not None:
        pasts = [downsample(view.history.memory.owner_tail(host.name, one.owner.key, MAX_STEPS), SPARK_CELLS) for one in held]
        top = max((value for past in pasts for value in past if value is not None), default=1.0)
        rows = []
        for one, past in zip(held, pasts, strict=True):
            actor, job = view.cluster.actors.get(one.owner.actor or ""), view.cluster.jobs.get(one.owner.job or "")
            process = next((process for process in one.processes if process.ticks is not None), None)  # more is known than its memory
            rows.append(OwnerRow(one, past, max(top, 1.0), actor or job or process))
        for key, name, used in memory_rest(memory, sum(one.used for one in held)):
            rows.append(OwnerRow(Holding(MemoryOwner(key, name), used, (), None), (), 1.0, None))

    def owner(row: OwnerRow, view: View) -> Cell:
        owner = row.holding.owner
        if owner.actor or owner.job:
            return _owner_text(owner, view)
        tone: Tone = "dim" if owner.kind in (None, "ray", "foreign") else "warn"
        return ((owner.name, tone), (f" of {owner.user}" if owner.user else "", "dim"))

    def growth(row: OwnerRow, _: View) -> Cell:
        if (trend := row.holding.trend) is None:
            return UNKNOWN
        return ((_rate(trend.slope), "warn" if trend.steady else "dim"),) if abs(trend.slope) * 60 >= 1 << 20 else (("0", "dim"),)

    def owner_job(row: OwnerRow, view: View) -> str:
        """The job of the owner; of a supervisor the job that it started."""
        actor = view.cluster.actors.get(row.holding.owner.actor or "")
        return actor.name.removeprefix(SUPERVISOR) if actor is not None and actor.internal else view.job_title(row.holding.owner.job)

    columns: tuple[Column[OwnerRow], ...] = (
        Column("BY JOB AND ACTOR", 22, owner, sort=lambda row, _: row.holding.owner.name, grow=True, name=True),
        number_column("HOLDS", 6, lambda row, _: row.holding.used),
        Column("SHARE", 5, lambda row, _: share(row.holding.owner.key, row.holding.used, memory), right=True, rank=2),
        Column(GROWTH, 10, growth, sort=lambda row, _: row.holding.trend.slope if row.holding.trend else None, right=True),
        Column("LAST 15 MIN", SPARK_CELLS, lambda row, view: ((spark(row.past, SPARK_CELLS, row.top, ascii=view.ascii), "mid"),), rank=3),
        Column("PROCS", 5, lambda row, _: str(len(row.holding.processes) or ""), right=True, rank=1),
        Column("JOB", 14, owner_job, rank=4, name=True),
    )
    unknown = "unknown: no probe on this node, or no answer from it yet"
    return Section(OWNERS, "BY JOB AND ACTOR", columns, rows, "none", lambda row: f"{row.holding.owner.name} {row.key}", unknown=unknown)


def _holdings(node: Node, view: View) -> Sequence[Holding] | None:
    """The owners of the node's memory; `None`: no probe on its host has answered."""
    host = view.cluster.host_of(node) if node.probed else None
    return view.history.memory.holdings(host.name) if host else None


def share(key: str, used: int, memory: HostMemory) -> Cell:
    """The share of all memory. A high share is a warning, except for available memory."""
    return cells.share(used, (memory.whole or memory).total, *((2.0, 2.0) if key == AVAILABLE else (0.5, 0.9)))


def memory_rest(memory: HostMemory, held: float) -> Iterator[tuple[str, str, int]]:
    """The memory that owners do not hold: key, name and bytes of each part. With the owners' memory the parts add up to the total.

    A part is below 0 if more is held than is in use: forked processes share pages, or some are outside the cgroup.
    """
    whole = memory.whole or memory
    used, total = plausible_bytes(whole.used), plausible_bytes(whole.total)
    if used is not None:
        words = "not attributed: kernel, drivers, other processes" if used >= held else "counted twice: pages that forked processes share"
        yield "rest", words, int(used - held)
        if total is not None:
            yield AVAILABLE, "available: free, or file cache", int(total - used)


def _owner_text(owner: MemoryOwner, view: View) -> str:
    known = view.cluster.actors.get(owner.actor or "")
    if known is not None and known.internal:
        return f"supervisor of job {known.name.removeprefix(SUPERVISOR)}"
    if owner.actor:
        return f"actor {(known.name or known.class_) if known else owner.name}"
    return f"job {view.job_title(owner.job)}" if owner.job else owner.name


def memory_node(page: Page, row: Any, snapshot: Snapshot) -> Node | None:
    """The node of the row under the cursor, else of the open page; `None`: no node is known."""
    thing = row if isinstance(row, Finding) else getattr(row, "about", row)
    candidates = [thing, *(getattr(one, "node", None) for one in (row, thing, page))]
    for one in (row, getattr(page, "thing", None)):
        if isinstance(one, Finding):
            candidates += find_things(one, snapshot)
    by_id = {node.id: node for node in snapshot.nodes or () if node.id}
    for candidate in candidates:
        node = by_id.get(candidate) if isinstance(candidate, str) else candidate
        if isinstance(node, Node):
            return node
    return None


def fullest_node(snapshot: Snapshot) -> Node | None:
    """The living node that is nearest to its kill line, or to its total if the line is unknown; `None`: no node's memory is known."""
    living = [(node, snapshot.index.machine(node).memory) for node in snapshot.nodes or () if node.state != "DEAD"]
    shares = [(share, node) for node, memory in living if (share := ratio(memory.used, memory.kill_at or memory.total)) is not None]
    return max(shares, key=lambda each: each[0], default=(0.0, None))[1]
