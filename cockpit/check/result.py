"""Defines the result of a check: its lines, the verdict that follows from them, and its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

from cockpit.budget import Budget, Level, Line, Mark
from cockpit.secrets import redact

Verdict = Literal["now", "later", "never", "unknown"]
FITS, LATER, NEVER, UNKNOWN = 0, 1, 2, 3
_VERDICTS: Mapping[Level, Verdict] = {"fine": "now", "doubt": "now", "later": "later", "unknown": "unknown", "never": "never"}
_LEVELS: tuple[Level, ...] = get_args(Level)


class CheckOutcome(msgspec.Struct, frozen=True):
    """Whether a preset's job fits, and why."""

    verdict: Verdict
    budget: Budget
    lines: tuple[Line, ...]

    @property
    def doubts(self) -> int:
        """The number of doubts: the job fits, but something may go wrong."""
        return sum(line.level == "doubt" for line in self.lines)

    @property
    def reason(self) -> Line | None:
        """The first of the worst lines; `None` if the job fits now."""
        return next((line for line in self.lines if _VERDICTS[line.level] == self.verdict != "now"), None)

    @property
    def has_mistake_in_command(self) -> bool:
        """Whether the reason is a mistake in the command itself, not a lack of nodes."""
        return self.reason is not None and self.reason.text in {redact(line.text) for line in self.budget.lines}


def judge(budget: Budget, lines: Iterable[Line]) -> CheckOutcome:
    """Return the outcome with the verdict of the worst line."""
    every = tuple(lines)
    worst = max((_LEVELS.index(line.level) for line in every), default=0)
    return CheckOutcome(_VERDICTS[_LEVELS[worst]], budget, every)


def exit_code(of: CheckOutcome) -> int:
    """0 fits · 1 fits later, or with doubts · 2 can never fit · 3 unknown."""
    if of.verdict == "now":
        return LATER if of.doubts else FITS
    return {"later": LATER, "never": NEVER, "unknown": UNKNOWN}[of.verdict]


class BundleStatus(msgspec.Struct, frozen=True):
    """Equal bundles."""

    needs: Mapping[str, float | None]
    """`null`: the amount depends on the framework's release."""
    count: int


class GroupStatus(msgspec.Struct, frozen=True):
    """Bundles that are placed together."""

    name: str
    bundles: tuple[BundleStatus, ...] | None
    strategy: str | None


class BudgetStatus(msgspec.Struct, frozen=True):
    """The resources that the job asks for; `null` is unknown."""

    gpus: float | None
    """GPUs, or NPUs on Ascend."""
    cpus: float | None
    mark: Mark
    """How sure the number of GPUs is, and with it the verdict."""
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
    """Return the JSON of `cockpit check --json`, indented."""
    budget = of.budget
    groups = []
    for group in budget.groups or ():
        bundles = [
            BundleStatus({name: None if name in group.unsure else amount for name, amount in needs.items()}, number)
            for needs, number in group.bundles or ()
        ]
        groups.append(GroupStatus(group.name, None if group.bundles is None else tuple(bundles), group.strategy))
    known = None if budget.groups is None else tuple(groups)
    status = BudgetStatus(budget.gpus, budget.amount("CPU"), budget.mark, budget.framework, budget.dialect, known, budget.unread)
    return msgspec.json.format(msgspec.json.encode(CheckStatus(of.verdict, status, of.lines)), indent=2).decode()


def share_of(written: str | None) -> float | None:
    """Read a share from a text. Return `None` if it is no number above 0 and up to 1."""
    try:
        share = float(written or "")
    except ValueError:
        return None
    return share if 0 < share <= 1 else None
