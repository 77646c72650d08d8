"""Draws the charts of a report as SVG: a timeline, the use of all GPUs, and host memory against Ray's kill line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from cockpit.model import LEVELS, PHASES, Phase
from cockpit.report.incident import words
from cockpit.report.incident.account import Account, Hours, Point
from cockpit.report.incident.markup import Html, join, tag
from cockpit.text import count, percent
from cockpit.text.grouping import group_by
from cockpit.usage import CAUSES

PLOT = 160
"""Height of a plot in units."""
MAX_LANES = {"finding": 20, "job": 12}


class _Layout(msgspec.Struct, frozen=True):
    """The layout of a chart, in units."""

    name: str
    """The CSS class of the chart: CSS shows one of the layouts, by the width of the screen."""
    width: int
    lane: int
    """The height of a lane; its bar takes the last `BAR` units of it."""
    lane_label: int
    """The width of the names of lanes on the left; 0: they stand above the bars."""
    plot_label: int
    """The width of the values of a plot on the left."""
    label_chars: int
    ticks: int


WIDE = _Layout("wide", 1000, lane=22, lane_label=240, plot_label=240, label_chars=32, ticks=5)
NARROW = _Layout("narrow", 440, lane=36, lane_label=0, plot_label=44, label_chars=60, ticks=3)
LAYOUTS = (WIDE, NARROW)
BAR = 14


class _Scale(msgspec.Struct, frozen=True):
    """Maps moments to positions in a chart."""

    begin: float
    end: float
    layout: _Layout
    left: int
    """The position of `begin`."""

    @property
    def right(self) -> int:
        """The position of `end`."""
        return self.layout.width - 10

    def x(self, moment: float) -> float:
        share = (moment - self.begin) / max(1e-9, self.end - self.begin)
        return self.left if math.isnan(share) else round(self.left + (self.right - self.left) * min(1.0, max(0.0, share)), 1)

    def width(self, begin: float, end: float) -> float:
        return max(2.0, round(self.x(end) - self.x(begin), 1))


def timeline(account: Account, clock: words.MomentFormatter) -> Html:
    """A lane for each job and each finding, and one for actions; times without a recording are hatched."""
    title = "What happened when"
    description = f"From {clock.at(account.begin)} to {clock.at(account.end)}: {words.summary(account)} The tables below say the same."
    charts = _lane_charts(title, description, account, clock, lambda scale: _lanes(account, scale))
    return join((tag("h3", title), *charts, _legend(_LANE_KEYS, "; hatched: nothing is recorded")))


def phase_chart(account: Account, clock: words.MomentFormatter) -> Html | None:
    """A lane for each job with its phases, and their shares in words."""
    courses = [course for course in account.phases if course.parts][:MAX_PHASE_LANES]
    if not courses:
        return None

    def lanes(scale: _Scale) -> Iterator[Lane]:
        for course in courses:
            yield (
                f"job {course.job}",
                [_bar(scale, part.begin, part.end, _phase_kind(part.phase), f"{course.job}: {part.phase}") for part in course.parts],
            )

    title = "Phases of jobs"
    texts = [f"{course.job}{words.session_words(account, course.session)}: {words.phases_words(course)}." for course in courses]
    there = {part.phase for course in courses for part in course.parts}
    keys = {_phase_kind(phase): phase for phase in PHASES if phase in there}
    charts = _lane_charts(title, " ".join(texts), account, clock, lanes)
    legend = _legend(keys, "; each part of the time has the phase that took the most of it; blank: unknown")
    return join((tag("h3", title), *charts, legend, *(tag("p", text) for text in texts)))


def _phase_kind(phase: Phase) -> str:
    """The class of its bars, the same as of idle GPUs in that phase."""
    return "sync" if phase == "weight sync" else phase


def _lane_charts(
    title: str, description: str, account: Account, clock: words.MomentFormatter, make_lanes: Callable[[_Scale], Iterable[Lane]]
) -> Sequence[Html]:
    """A chart of lanes in each layout."""
    charts: list[Html] = []
    for layout in LAYOUTS:
        scale = _Scale(account.begin, account.end, layout, layout.lane_label)
        lanes = list(make_lanes(scale))
        height = layout.lane * max(1, len(lanes))
        rows: list[Html] = []
        for number, (name, bars) in enumerate(lanes):
            label = name if len(name) <= layout.label_chars else f"{name[: layout.label_chars - 1]}…"
            line = tag("line", x1=scale.left, x2=scale.right, y1=layout.lane - 1, y2=layout.lane - 1, class_="grid")
            text = tag("text", label, x=0, y=15 if layout.lane_label else 13)
            rows.append(tag("g", line, text, *bars, transform=f"translate(0 {number * layout.lane})"))
        drawn = [*rows, *_gaps(account, scale, height), *_axis(scale, clock, height)]
        charts.append(_chart(title, description, layout, height + 24, drawn))
    return charts


_LANE_KEYS: Mapping[str, str] = {
    "busy": "job",
    "critical": "critical finding, job that failed",
    "warning": "warning",
    "info": "info, action",
}


Lane = tuple[str, Sequence[str]]
MAX_PHASE_LANES = 12


def _lanes(account: Account, scale: _Scale) -> Iterator[Lane]:
    for job in account.jobs[: MAX_LANES["job"]]:
        begin, end = job.started or account.begin, job.ended or account.end
        kind = "failed" if job.status == "FAILED" else "job"
        yield f"job {job.id}", [_bar(scale, begin, end, kind, f"{job.id}: {job.status}")]
    if account.actions:
        yield "actions", [_bar(scale, action.at, action.end or action.at, "act", words.action_words(action)) for action in account.actions]

    # The most severe findings, each subject in a lane.
    lanes = group_by(account.findings, lambda one: one.key)
    ranked = sorted(lanes.values(), key=lambda episodes: min(LEVELS.index(one.level) for one in episodes))
    for episodes in sorted(ranked[: MAX_LANES["finding"]], key=lambda episodes: episodes[0].begin):
        bars = [_bar(scale, one.begin, account.end if one.end is None else one.end, one.level, one.text) for one in episodes]
        yield f"{episodes[0].code}: {episodes[0].subject}", bars


def _bar(scale: _Scale, begin: float, end: float, kind: str, label: str) -> Html:
    y = scale.layout.lane - BAR - 4
    return tag("rect", x=scale.x(begin), y=y, width=scale.width(begin, end), height=BAR, rx=2, class_=f"bar {kind}", aria_label=label)


def _gaps(account: Account, scale: _Scale, height: float) -> Iterator[Html]:
    for begin, end in account.gaps:
        yield tag("rect", x=scale.x(begin), y=0, width=scale.width(begin, end), height=height, class_="gap")


def _axis(scale: _Scale, clock: words.MomentFormatter, height: float) -> Iterator[Html]:
    last = scale.layout.ticks - 1
    for number in range(last + 1):
        moment = scale.begin + (scale.end - scale.begin) * number / last
        anchor = "start" if number == 0 else "end" if number == last else "middle"
        yield tag("text", clock.at(moment), x=scale.x(moment), y=height + 18, text_anchor=anchor, class_="tick")


def _chart(title: str, description: str, layout: _Layout, height: float, inside: Iterable[str]) -> Html:
    name = f"{title.lower().replace(' ', '-')}-{layout.name}"
    hatch = Html(
        '<defs><pattern id="hatch-' + name + '" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="2" height="6" class="hatch"/></pattern></defs>'
    )
    drawn = Html(join(inside).replace('class="gap"', f'class="gap" fill="url(#hatch-{name})"'))
    parts = (tag("title", title, id=f"t-{name}"), tag("desc", description, id=f"d-{name}"), hatch, drawn)
    svg = tag("svg", *parts, viewBox=f"0 0 {layout.width} {height}", role="img", aria_labelledby=f"t-{name} d-{name}")
    return tag("div", svg, class_=f"chart {layout.name}")


def _runs(account: Account, points: Sequence[Point]) -> list[list[Point]]:
    """The points between two gaps each: nothing is drawn for a time without a recording."""
    runs: list[list[Point]] = [[]]
    for point in points:
        if runs[-1] and any(runs[-1][-1].at < end and begin < point.at for begin, end in account.gaps):
            runs.append([])
        runs[-1].append(point)
    return runs


def _line(scale: _Scale, points: Iterable[tuple[float, float]], most: float) -> Html:
    return tag("polyline", points=" ".join(f"{scale.x(moment)},{_y(value, most)}" for moment, value in points), class_="line")


def gpu_chart(account: Account, clock: words.MomentFormatter) -> Html | None:
    """Stacked areas of busy, idle and unknown GPUs, and a line of reserved GPUs."""
    known = [point for point in account.course if point.gpus]
    if len(known) < 2:
        return None
    most = max(max(point.gpus or 0, point.reserved or 0) for point in known)
    runs, charts = _runs(account, known), []
    for layout in LAYOUTS:
        scale = _Scale(account.begin, account.end, layout, layout.plot_label)
        areas: list[Html] = []
        for run in runs:
            for kind, edges in _EDGES.items():
                tops = [f"{scale.x(point.at)},{_y(edges(point)[1], most)}" for point in run]
                floor = [f"{scale.x(point.at)},{_y(edges(point)[0], most)}" for point in reversed(run)]
                areas.append(tag("path", d=f"M{' L'.join([*tops, *floor])} Z", class_=f"area {kind}"))
        lines = [_line(scale, [(point.at, point.reserved) for point in run if point.reserved is not None], most) for run in runs]
        rest = [*lines, *_gaps(account, scale, PLOT), *_levels(scale, most, count), *_axis(scale, clock, PLOT)]
        charts.append(_chart("GPUs", words.fleet_words(account), layout, PLOT + 24, [*areas, *rest]))
    return join((tag("h3", "GPUs"), *charts, _legend(_GPU_KEYS, "; here GPUs that wait at 100% count as busy")))


_EDGES: Mapping[str, Callable[[Point], tuple[float, float]]] = {
    "busy": lambda point: (0.0, point.busy or 0.0),
    "idle": lambda point: (point.busy or 0.0, (point.gpus or 0.0) - point.unknown),
    "unknown": lambda point: ((point.gpus or 0.0) - point.unknown, point.gpus or 0.0),
}
"""The lower and the upper edge of each area."""


_GPU_KEYS: Mapping[str, str] = {"busy": "busy", "idle": "idle", "unknown": "unknown", "line": "reserved (line)"}


def _legend(keys: Mapping[str, str], rest: str) -> Html:
    return tag("p", *(join((tag("span", class_=f"key {kind}"), f" {name}  ")) for kind, name in keys.items()), rest, class_="legend")


def memory_chart(account: Account, clock: words.MomentFormatter) -> Html | None:
    """Memory in use on the fullest host at each moment, and Ray's kill line."""
    known = [point for point in account.course if point.memory is not None]
    if len(known) < 2:
        return None
    most = max(1.05, *(point.memory or 0.0 for point in known))
    peak = max(known, key=lambda point: point.memory or 0.0)
    description = f"The highest was {percent(100 * (peak.memory or 0.0))} of Ray's kill line at {clock.at(peak.at)}."
    runs, charts = _runs(account, known), []
    for layout in LAYOUTS:
        scale = _Scale(account.begin, account.end, layout, layout.plot_label)
        lines = [_line(scale, [(point.at, point.memory or 0.0) for point in run], most) for run in runs]
        kill = tag("line", x1=scale.left, x2=scale.right, y1=_y(1.0, most), y2=_y(1.0, most), class_="kill")
        name = tag("text", "Ray kills above this line", x=scale.left + 6, y=_y(1.0, most) + 15, class_="tick")
        levels = _levels(scale, most, lambda share: percent(100 * share))
        inside = [*lines, kill, name, *_gaps(account, scale, PLOT), *levels, *_axis(scale, clock, PLOT)]
        charts.append(_chart("Host memory", description, layout, PLOT + 24, inside))
    return join((tag("h3", "Host memory"), *charts, tag("p", f"The fullest host at each moment. {description}", class_="legend")))


def _y(value: float | None, most: float) -> float:
    return round(PLOT - (PLOT - 6) * (value or 0.0) / most, 1)


def _levels(scale: _Scale, most: float, word: Callable[[float], str]) -> Iterator[Html]:
    for share in (0.0, 0.5, 1.0):
        y = _y(most * share, most)
        yield tag("line", x1=scale.left, x2=scale.right, y1=y, y2=y, class_="grid")
        yield tag("text", word(most * share), x=scale.left - 8, y=min(PLOT, y + 8), text_anchor="end", class_="tick")


def share_bar(hours: Hours) -> Html:
    """Shares of busy, idle and unknown hours: a bar of 200 units, with the same in words as its title."""
    parts = [("busy", "busy", hours.busy), *((cause, words_, hours.idle_by_cause.get(cause, 0.0)) for cause, words_ in CAUSES.items())]
    parts.append(("unknown", "unknown", hours.unknown))
    whole, x, bars = words.had(hours), 0.0, list[str]()
    for kind, _, value in parts:
        width = 200 * value / whole if whole else 0.0
        bars.append(tag("rect", x=round(x, 1), y=0, width=round(width, 1), height=14, class_=f"part {kind}") if value else Html(""))
        x += width
    title = ", ".join(f"{percent(100 * value / whole)} {name}" for _, name, value in parts if value) if whole else "nothing"
    return tag("svg", tag("title", title), *bars, viewBox="0 0 200 14", width=200, height=14, role="img", class_="share")
