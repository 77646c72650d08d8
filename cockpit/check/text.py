"""What came of a check as text: the verdict first, then what is asked for, then every line with its sign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from cockpit.budget import Budget, Group, Level
from cockpit.check.groups import bundles
from cockpit.check.result import CheckOutcome
from cockpit.text import clean, count, plural

SIGNS: dict[Level, tuple[str, str]] = {
    "fine": ("✓", "ok"),
    "doubt": ("!", "!"),
    "later": ("…", ".."),
    "unknown": ("?", "?"),
    "never": ("✗", "X"),
}
"""As drawn, and in ASCII."""
MAX_HEADLINE_CHARS = 160
"""Two lines of most terminals."""
TITLES = ("GROUP", "BUNDLES", "STRATEGY", "GPUS", "CPUS")


def check_text(name: str, of: CheckOutcome, *, ascii: bool = False) -> str:
    """Lines to be read, or pasted into a chat."""
    lines = [headline(name, of), "", *_budget(of.budget), "", *_lines(of, ascii=ascii)]
    return "\n".join(clean(line).rstrip() for line in lines)


def headline(name: str, of: CheckOutcome) -> str:
    """The verdict; where its reason is long, without what its line tells in full."""
    whole = verdict(name, of)
    return whole if len(whole) <= MAX_HEADLINE_CHARS else whole.partition("; ")[0]


def verdict(name: str, of: CheckOutcome) -> str:
    """In one sentence."""
    match of.verdict:
        case "now" if not of.doubts:
            return f"{name} fits now"
        case "now":
            return f"{name} fits now, with {plural(of.doubts, 'doubt')}"
        case "later":
            told = f"{name} does not fit now, but could later"
        case "never":
            told = f"{name} can't run as written" if of.has_mistake_in_command else f"{name} can never fit here"
        case "unknown":
            told = f"unknown whether {name} fits"
    return f"{told}: {of.reason.text}" if of.reason else told


def _budget(budget: Budget) -> Iterator[str]:
    """A little table; groups that are alike in one row."""
    if budget.groups is None:
        yield "What the job needs is unknown."
        return
    alike = groupby(budget.groups, key=lambda group: (group.name, bundles(group), group.strategy))
    rows = [_row(group, 1 + sum(1 for _ in same)) for _, same in alike for group in [next(same)]]
    total = ("total", "", "", count(budget.amount("GPU")), count(budget.amount("CPU")))
    told = " ".join(filter(None, (budget.framework, f"({budget.dialect})" if budget.dialect else "")))
    if told:
        yield told
    if rows:
        yield from _table([TITLES, *rows, total])


def _row(group: Group, number: int) -> tuple[str, ...]:
    shares = (group.amount("GPU"), group.amount("CPU"))
    gpus, cpus = (count(None if share is None else number * share) for share in shares)
    times = f"{number} x ({bundles(group)})" if number > 1 else bundles(group)
    return group.name, times, group.strategy or "one by one", gpus, cpus


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        yield "  ".join([*left, *right])


def _lines(of: CheckOutcome, *, ascii: bool) -> Iterator[str]:
    for line in of.lines:
        yield f"{SIGNS[line.level][ascii].ljust(2 if ascii else 1)} {line.text}"
        if line.change:
            yield f"    -> {line.change}"
