"""Writes the result of a check as text: the verdict, the resources that the job asks for, and every line with its sign."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from cockpit.budget import Budget, Level
from cockpit.check.groups import describe_bundles
from cockpit.check.result import CheckOutcome
from cockpit.text import clean, count, plural

SIGNS: dict[Level, tuple[str, str]] = {
    "fine": ("✓", "ok"),
    "doubt": ("!", "!"),
    "later": ("…", ".."),
    "unknown": ("?", "?"),
    "never": ("✗", "X"),
}
"""The sign of each level, in Unicode and in ASCII."""
MAX_HEADLINE_CHARS = 160
"""Two lines of most terminals."""
TITLES = ("GROUP", "BUNDLES", "STRATEGY", "GPUS", "CPUS")


def check_text(name: str, of: CheckOutcome, *, ascii: bool = False) -> str:
    """Return the result as lines that a person can read, or paste into a chat."""
    lines = [headline(name, of), "", *_budget_lines(of.budget), ""]
    for line in of.lines:
        lines.append(f"{SIGNS[line.level][ascii].ljust(2 if ascii else 1)} {line.text}")
        if line.change:
            lines.append(f"    -> {line.change}")
    return "\n".join(clean(line).rstrip() for line in lines)


def headline(name: str, of: CheckOutcome) -> str:
    """Return the verdict; a long one without the details that its line repeats."""
    whole = verdict(name, of)
    return whole if len(whole) <= MAX_HEADLINE_CHARS else whole.partition("; ")[0]


def verdict(name: str, of: CheckOutcome) -> str:
    """Return the verdict and its reason in one sentence."""
    match of.verdict:
        case "now" if not of.doubts:
            return f"{name} fits now"
        case "now":
            return f"{name} fits now, with {plural(of.doubts, 'doubt')}"
        case "later":
            text = f"{name} does not fit now, but could later"
        case "never":
            text = f"{name} can't run as written" if of.has_mistake_in_command else f"{name} can never fit here"
        case "unknown":
            text = f"unknown whether {name} fits"
    return f"{text}: {of.reason.text}" if of.reason else text


def _budget_lines(budget: Budget) -> Iterator[str]:
    """The framework, and a table of the groups; consecutive equal groups share a row."""
    if budget.groups is None:
        yield "What the job needs is unknown."
        return
    if framework := " ".join(filter(None, (budget.framework, f"({budget.dialect})" if budget.dialect else ""))):
        yield framework

    rows: list[tuple[str, ...]] = [TITLES]
    for _, equal in groupby(budget.groups, key=lambda group: (group.name, describe_bundles(group), group.strategy)):
        group, *more = equal
        number = 1 + len(more)
        times = f"{number} x ({describe_bundles(group)})" if number > 1 else describe_bundles(group)
        shares = (group.amount("GPU"), group.amount("CPU"))
        gpus, cpus = (count(None if share is None else number * share) for share in shares)
        rows.append((group.name, times, group.strategy or "one by one", gpus, cpus))
    if len(rows) == 1:
        return
    rows.append(("total", "", "", count(budget.amount("GPU")), count(budget.amount("CPU"))))

    # Words are aligned to the left, numbers to the right.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        yield "  ".join([*left, *right])
