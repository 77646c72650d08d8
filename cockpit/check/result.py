"""What came of a check: lines, the verdict that follows from them, and what of it a script is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

from cockpit.budget import Budget, Group, Level, Line
from cockpit.secrets import redact

Verdict = Literal["now", "later", "never", "unknown"]
FITS, LATER, NEVER, UNKNOWN = 0, 1, 2, 3
_VERDICTS: Mapping[Level, Verdict] = {"fine": "now", "doubt": "now", "later": "later", "unknown": "unknown", "never": "never"}
_LEVELS: tuple[Level, ...] = get_args(Level)


class CheckOutcome(msgspec.Struct, frozen=True):
    """Whether a preset's job would fit."""

    verdict: Verdict
    budget: Budget
    lines: tuple[Line, ...]

    @property
    def doubts(self) -> int:
        """Lines that say: it fits, and yet."""
        return sum(line.level == "doubt" for line in self.lines)

    @property
    def reason(self) -> Line | None:
        """The first of the worst lines; `None` where it fits now."""
        return next((line for line in self.lines if _VERDICTS[line.level] == self.verdict != "now"), None)

    @property
    def has_mistake_in_command(self) -> bool:
        """Whether the reason is a mistake in the command itself, and no lack of nodes."""
        return self.reason is not None and self.reason.text in {redact(line.text) for line in self.budget.lines}


def judge(budget: Budget, lines: Iterable[Line]) -> CheckOutcome:
    """As bad as the worst line."""
    every = tuple(lines)
    worst = max((_LEVELS.index(line.level) for line in every), default=0)
    return CheckOutcome(_VERDICTS[_LEVELS[worst]], budget, every)


def exit_code(of: CheckOutcome) -> int:
    """0 fits · 1 fits later, or with doubts · 2 can never fit · 3 unknown."""
    if of.verdict == "now":
        return LATER if of.doubts else FITS
    return {"later": LATER, "never": NEVER, "unknown": UNKNOWN}[of.verdict]


class BundleStatus(msgspec.Struct, frozen=True):
    """So many bundles of one shape."""

    needs: Mapping[str, float | None]
    """`null`: how much depends on the framework's release."""
    count: int


class GroupStatus(msgspec.Struct, frozen=True):
    """What is placed together."""

    name: str
    bundles: tuple[BundleStatus, ...] | None
    strategy: str | None


class BudgetStatus(msgspec.Struct, frozen=True):
    """What the job asks for; `null` is unknown."""

    gpus: float | None
    cpus: float | None
    framework: str | None
    dialect: str | None
    groups: tuple[GroupStatus, ...] | None
    unread: tuple[str, ...]


class CheckStatus(msgspec.Struct, frozen=True):
    """`cockpit check --json`."""

    verdict: Verdict
    budget: BudgetStatus
    lines: tuple[Line, ...]


def check_json(of: CheckOutcome) -> str:
    """As scripts are told of it, in many lines that a person can read."""
    budget = of.budget
    groups = None if budget.groups is None else tuple(map(_group, budget.groups))
    told = BudgetStatus(budget.amount("GPU"), budget.amount("CPU"), budget.framework, budget.dialect, groups, budget.unread)
    return msgspec.json.format(msgspec.json.encode(CheckStatus(of.verdict, told, of.lines)), indent=2).decode()


def _group(group: Group) -> GroupStatus:
    bundles = None if group.bundles is None else tuple(BundleStatus(_hide_unsure(needs, group), number) for needs, number in group.bundles)
    return GroupStatus(group.name, bundles, group.strategy)


def _hide_unsure(needs: Mapping[str, float], group: Group) -> dict[str, float | None]:
    return {name: None if name in group.unsure else amount for name, amount in needs.items()}


def share_of(written: str | None) -> float | None:
    """A share as text has it, of more than nothing and at most all; `None`: it isn't one."""
    try:
        share = float(written or "")
    except ValueError:
        return None
    return share if 0 < share <= 1 else None
