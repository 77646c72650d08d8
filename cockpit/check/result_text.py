"""Writes the result of a check as text: the verdict, the resources that the job asks for, and every line with its sign."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from cockpit.budget import Budget, Group, Level, Mark
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
MARKS: dict[Mark, tuple[str, str]] = {"firm": ("●", "*"), "likely": ("◐", "~"), "unknown": ("?", "?")}
"""The sign of how sure a number is."""
MAX_HEADLINE_CHARS = 160
"""Two lines of most terminals."""
TITLES = ("GROUP", "BUNDLES", "STRATEGY", "GPUS", "CPUS")


def check_text(name: str, of: CheckOutcome, *, ascii: bool = False) -> str:
    """Return the result as lines that a person can read, or paste into a chat."""
    first, mark, reason = needs_line(of.budget, ascii=ascii), MARKS[of.budget.mark][ascii], of.reason
    lines = [f"{mark} {first}"] if first else []
    is_told = reason is not None and first.endswith(reason.text)
    if not is_told:
        told = headline(name, of)
        lines.append(f"{MARKS['unknown'][ascii] if of.verdict == 'unknown' else mark} {told}" if first else told)
        is_told = reason is not None and told.endswith(reason.text)
    if is_told and reason and reason.change:
        lines.append(f"-> {reason.change}")
    lines += ["", *table, ""] if (table := list(_budget_lines(of.budget))) else [""]
    for line in of.lines:
        if line is reason and is_told:
            continue  # nothing is said twice
        lines.append(f"{SIGNS[line.level][ascii].ljust(2 if ascii else 1)} {line.text}")
        if line.change:
            lines.append(f"    -> {line.change}")
    return "\n".join(clean(line).rstrip() for line in lines).rstrip()


def needs_line(budget: Budget, *, ascii: bool = False) -> str:
    """Return the number of GPUs with the groups they come in, or what is missing for it; empty if there is nothing to say."""
    total = budget.gpus
    if total is None:
        return f"unknown: {budget.unread[0]}" if budget.unread else ""
    if not budget.groups:
        return ""
    device = "NPU" if budget.amount("NPU") else "GPU"
    times = "x" if ascii else "×"
    sizes = [size for group in budget.groups for size in _gpus_together(group, device)]
    parts = [f"{number} {times} {count(gpus)}" if number > 1 else count(gpus) for gpus, number in _merge_equal(sizes)]
    how = f" as {' + '.join(parts)}" if parts and parts != [count(total)] else ""
    who = ", ".join(filter(None, ("job" if budget.framework == "Ray" else budget.framework, "likely" if budget.mark == "likely" else "")))
    return f"needs {count(total)} {device}{'' if total == 1 else 's'}{how}{f' ({who})' if who else ''}"


def _gpus_together(group: Group, device: str) -> Iterator[tuple[float, int]]:
    """The GPUs of a group, and of each bundle if bundles have several; with their number."""
    for shape, number in group.bundles or ():
        if number and (gpus := shape.get(device)):
            yield (gpus, number) if gpus > 1 else (gpus * number, 1)


def _merge_equal(sizes: Iterable[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    for gpus, equal in groupby(sizes, key=lambda size: size[0]):
        yield gpus, sum(number for _, number in equal)


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
        if not budget.unread:
            yield "What the job needs is unknown."
        return
    if budget.framework and (budget.dialect or budget.gpus is None):
        yield f"{budget.framework} ({budget.dialect})" if budget.dialect else budget.framework

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
