"""Makes the sections on the page of a job about its phases, its last steps, and its ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cockpit.model import PHASES, Job, Phase, Process
from cockpit.phases import Rank, ranks_of
from cockpit.report.phases import JobPhases, activity_words, phases_by_job, usual_words, wait_words
from cockpit.text import UNKNOWN, age, percent, plural
from cockpit.text.grouping import group_by
from cockpit.ui import cells
from cockpit.ui.marks import Piece, merge
from cockpit.ui.phase_cells import phase_band, phase_mark, phase_name, rank_marks
from cockpit.ui.section import Cell, Column, Item, PageRow, Pairs, Section
from cockpit.ui.view import View

STEPS_SHOWN: Final = 20
MIN_STEPS_LISTED: Final = 5
"""So many steps are always shown, even if other sections do not fit on the screen then."""
MIN_SHARE: Final = 0.01
NAME_CELLS, MAX_NODE_CELLS, DOES_CELLS = 16, 24, 18
"""The widths of the columns beside the grid of ranks."""
STEP_CELLS, TIME_CELLS, MAX_BAR_CELLS = 6, 6, 100


class RankLine(PageRow, frozen=True):
    """One line of the grid of ranks: the workers of a class on some nodes."""

    key: str
    name: str
    """The name of the class on its first line; empty on the others."""
    nodes: str
    marks: tuple[Piece, ...]
    does: str
    """The methods of the workers on the first line of the class; empty on the others."""
    about: Process | None = None
    """The worker that is behind."""


def phase_facts(job: Job, view: View) -> Pairs:
    """The present phase of the job, and which workers wait for which."""
    phases = view.index.of(phases_by_job).get(job.key)
    if phases is None or phases.activity is None:
        return
    yield "phase", activity_words(phases, view.now)
    if waits := wait_words(job, phases.activity, view.snapshot):
        yield "who waits", waits


def phase_sections(thing: Any, view: View) -> Iterator[Section[Any]]:
    """The sections for the known phases, steps and ranks of a job."""
    phases = view.index.of(phases_by_job).get(thing.key) if isinstance(thing, Job) else None
    if phases is None:
        return
    if phases.steps or phases.running_seconds(view.now):
        yield _phases_section(phases, view)
    if phases.steps:
        yield _steps_section(phases, view)
    if phases.activity is not None and (ranks := ranks_of(thing, view.snapshot)):
        yield _ranks_section(ranks, frozenset(one.process for one in phases.activity.laggards), view)


def _phases_section(phases: JobPhases, view: View) -> Section[Item[Phase | None]]:
    now, usual = phases.running_seconds(view.now), phases.usual
    current = phases.activity.phase if phases.activity is not None else None
    shares = phases.shares

    def running(row: Item[Phase | None], _: View) -> Cell:
        seconds = now.get(row.value)
        if seconds is None:
            return ""
        is_now = row.value == current and current is not None
        return ((f"{'now ' if is_now else ''}{age(seconds)}", "accent" if is_now else ""),)

    def bar(row: Item[Phase | None], view: View) -> Cell:
        width = round(shares.get(row.value, 0.0) * 30)
        return merge([phase_mark(row.value, ascii=view.ascii)] * width)

    phase_order: tuple[Phase | None, ...] = (*PHASES, None)
    rows = [Item(f"phase:{phase}", phase) for phase in phase_order if phase in now or shares.get(phase, 0.0) >= MIN_SHARE]
    columns: tuple[Column[Item[Phase | None]], ...] = (
        Column("PHASES", 13, lambda row, view: phase_name(row.value, ascii=view.ascii)),
        Column("THIS STEP", 10, running, right=True),
        Column("USUAL", 14, lambda row, _: usual_words(usual.get(row.value)), right=True),
        Column("SHARE", 5, lambda row, _: percent(None if (part := shares.get(row.value)) is None else 100 * part), right=True),
        Column("OF A STEP", 30, bar, grow=True, rank=1),
    )
    return Section("job-phases", "PHASES", columns, rows, fixed=True)


def _steps_section(phases: JobPhases, view: View) -> Section[Item[tuple[str, float, float]]]:
    """The running step and the last steps, the newest first. The length of a bar shows how long the step took."""
    ended = [(str(step.number) if step.number is not None else UNKNOWN, step.began, step.ended) for step in phases.steps[-STEPS_SHOWN:]]
    activity = phases.activity
    if activity is not None and activity.step_began is not None:
        ended.append(
            (f"{activity.step if activity.step is not None else UNKNOWN}", activity.step_began, max(view.now, activity.step_began))
        )
    most = max(end - begin for _, begin, end in ended) or 1.0
    width = max(10, min(MAX_BAR_CELLS, view.width - STEP_CELLS - TIME_CELLS - 6))

    def bar(row: Item[tuple[str, float, float]], view: View) -> Cell:
        _, begin, end = row.value
        return phase_band(phases.spans, begin, end, max(1, round(width * (end - begin) / most)), ascii=view.ascii)

    columns: tuple[Column[Item[tuple[str, float, float]]], ...] = (
        Column("STEPS", STEP_CELLS, lambda row, _: row.value[0]),
        Column("TIME", TIME_CELLS, lambda row, _: age(row.value[2] - row.value[1]), right=True),
        Column("ITS PHASES", width, bar),
    )
    rows = [Item(f"step:{begin}", (number, begin, end)) for number, begin, end in reversed(ended)]
    return Section(
        "job-steps",
        "STEPS",
        columns,
        rows,
        fixed=True,
        min_rows=max(MIN_STEPS_LISTED, view.height // 3),
        more_hint="a larger screen has room",
    )


def _ranks_section(ranks: Sequence[Rank], behind: frozenset[str], view: View) -> Section[RankLine]:
    """One cell for each worker, class by class. The workers of a node are neighbours. A line has as many nodes as fit."""
    longest = max(len(cells.place(rank.process, view)) for rank in ranks)
    node_cells = min(MAX_NODE_CELLS, 2 * longest + 3)
    width = max(16, view.width - NAME_CELLS - node_cells - DOES_CELLS - 6)
    lines: list[RankLine] = []
    for class_, members in group_by(ranks, lambda rank: rank.title.class_).items():
        name, does = class_ or "tasks", _methods_words(members)
        for number, nodes in enumerate(_pack(members, width, view)):
            marks: list[Piece] = []
            for _, part in nodes:
                marks += [(" ", "")] if marks else []
                marks += rank_marks(part, behind, ascii=view.ascii)
            places = ", ".join(node for node, _ in nodes) if len(nodes) < 3 else f"{nodes[0][0]} … {nodes[-1][0]}"
            odd = next((rank.process for _, part in nodes for rank in part if rank.process.key in behind), None)
            first = number == 0
            lines.append(RankLine(f"ranks:{class_}:{number}", name if first else "", places, merge(marks), does if first else "", odd))
    needed = max(sum(len(text) for text, _ in line.marks) for line in lines)
    columns: tuple[Column[RankLine], ...] = (
        Column("RANKS", NAME_CELLS, lambda line, _: line.name, name=True),
        Column("NODES", node_cells, lambda line, _: line.nodes, cut="middle"),
        Column("ONE CELL EACH", max(13, needed), lambda line, _: line.marks),
        Column("NOW", DOES_CELLS, lambda line, _: line.does, grow=True),
    )
    return Section("job-ranks", f"RANKS {len(ranks)}", columns, lines, fixed=True)


def _pack(members: Sequence[Rank], width: int, view: View) -> Sequence[Sequence[tuple[str, Sequence[Rank]]]]:
    """Distribute nodes and their workers over lines of this width. A blank cell separates two nodes."""
    lines: list[list[tuple[str, Sequence[Rank]]]] = []
    room = 0
    for node, own in group_by(members, lambda rank: cells.place(rank.process, view)).items():
        for begin in range(0, len(own), width):
            part = own[begin : begin + width]
            if room < len(part) + 1:
                lines.append([])
                room = width + 1
            lines[-1].append((node, part))
            room -= len(part) + 1
    return lines


def _methods_words(members: Sequence[Rank]) -> str:
    """`7 idle, 1 fit`: the number of workers in each method, by their titles; `2 –` on silent hosts."""
    counts = Counter(UNKNOWN if rank.is_old else rank.title.method or "idle" for rank in members)
    first = [f"{count} {method}" for method, count in counts.most_common(3)]
    return ", ".join(first) + (f" and {plural(len(counts) - 3, 'other')}" if len(counts) > 3 else "")
