"""Keeps the findings of a screen: visible and hidden ones, the marks of rows, and the keys that a user can press next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

import msgspec

from cockpit.actions.table import find_action_or_runbook
from cockpit.model import Finding, Level, Snapshot
from cockpit.model.about import LISTS, gpu_nodes
from cockpit.report.faults import by_cause
from cockpit.text import plural

LOOK_WORDS: Mapping[str, str] = {
    "l": "Log",
    "s": "Stack: what its processes do now",
    "N": "NCCL: which rank is behind",
    "m": "Memory of the node, by owner",
    "a": "Another Ray cluster on this host",
    "Enter": "Evidence, and what it is about",
}
LOOK_KEYS: Mapping[str, tuple[str, ...]] = {
    "actor-leaked": ("l", "s"),
    "actor-restarting": ("l",),
    "address-wrong": ("a",),
    "engine-cache-full": ("l",),
    "engine-dead": ("l",),
    "engine-silent": ("s", "l"),
    "engine-stuck": ("s", "l"),
    "gpu-lags": ("s", "l"),
    "gpu-memory-grows": ("l",),
    "gpu-memory-idle-worker": ("l",),
    "host-memory-near-kill": ("m",),
    "job-failed": ("l",),
    "job-hung": ("s", "N", "l"),
    "job-stalled": ("s", "l", "N"),
    "phase-stuck": ("s", "l", "N"),
    "rank-behind": ("s", "l", "N"),
    "ray-ended": ("a",),
    "ray-replaced": ("a",),
    "steps-slower": ("l", "s"),
    "worker-stopped": ("s", "l"),
    "workers-killed-oom": ("m",),
}
"""By code of a finding: the keys that show its cause. All other findings have `Enter`."""
RECORDED_KEYS = frozenset({"m"})
"""The keys of these that also work in a recorded moment."""


class FindingIndex:
    """Findings by row. It is made once for each snapshot, because every drawn line needs its mark."""

    def __init__(self, findings: Sequence[Finding] = (), hidden: AbstractSet[str] = frozenset()) -> None:
        """`hidden` holds the keys of findings."""
        self.visible = tuple(finding for finding in findings if finding.key not in hidden) if hidden else tuple(findings)
        self.hidden = tuple(finding for finding in findings if finding.key in hidden) if hidden else ()

    @cached_property
    def counts(self) -> Mapping[Level, int]:
        """The number of visible findings of each level."""
        return Counter(finding.level for finding in self.visible)

    @cached_property
    def marks(self) -> Mapping[str, Level]:
        """By key of a row: the level of the worst finding about it. A finding about a GPU is also about its node."""
        marks: dict[str, Level] = {}
        for finding in reversed(self.visible):  # so that the worst, which comes first, is written last
            marks |= dict.fromkeys(finding.about, finding.level)
            marks |= dict.fromkeys(gpu_nodes(finding), finding.level)
        return marks

    def level(self, row: Any) -> Level | None:
        """The level of the worst finding about a row, or about the thing that the row stands for."""
        if not self.visible:
            return None
        return self.marks.get(row.key) or self.marks.get(getattr(getattr(row, "about", None), "key", ""))

    def about(self, key: str) -> Sequence[Finding]:
        """The findings about the thing with this key, the worst first."""
        return [finding for finding in self.visible if key in finding.about or key in gpu_nodes(finding)]


POOLS: Mapping[str, Callable[[Snapshot], Iterable[Any] | None]] = {
    **LISTS,
    "fault": lambda snapshot: by_cause(snapshot.faults),
    "finding": lambda snapshot: snapshot.findings,
}
"""By the beginning of a key: all things of that type that a page can be about."""


class HiddenFindings:
    """The keys of findings that the user has hidden. Methods return a sentence for the user, so that no finding disappears unnoticed."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._last: set[str] = set()

    def toggle(self, findings: Sequence[Finding]) -> str:
        """Hide the visible ones of these findings, and show the hidden ones again; returns a sentence if any was hidden."""
        hiding = [finding for finding in findings if finding.key not in self.keys]
        self.keys ^= {finding.key for finding in findings}
        if not hiding:
            return ""
        self._last = {finding.key for finding in hiding}
        if len(hiding) > 1:
            return f"Hidden until they clear: {plural(len(hiding), 'finding')}. z shows them again; page 6 lists what is hidden"
        return f"Hidden until it clears: {hiding[0].level}, {hiding[0].subject}. z shows it again; page 6 lists what is hidden"

    def undo(self) -> str:
        """Show the findings again that were hidden last."""
        back = self._last & self.keys
        self.keys -= back
        return f"{plural(len(back), 'finding')} shown again" if back else "Nothing was hidden just now; page 6 lists what is hidden"

    def forget_cleared(self, findings: Sequence[Finding]) -> None:
        """A finding that clears and comes again is new, and visible."""
        self.keys &= {finding.key for finding in findings}


class NextStep(msgspec.Struct, frozen=True):
    """A key that a user can press next."""

    key: str
    text: str


def next_steps(finding: Finding, *, has_actions: bool, past: bool = False) -> tuple[NextStep, ...]:
    """The keys that show the cause, then the action that helps; an action that ends nothing alive comes first.

    In a recorded moment (`past`) there are no logs, stacks or actions.
    """
    keys = [key for key in LOOK_KEYS.get(finding.code, ()) if (finding.about or key == "a") and (key in RECORDED_KEYS or not past)]
    looks = tuple(NextStep(key, LOOK_WORDS[key]) for key in (*keys, *(() if keys else ("Enter",))))
    if not (has_actions and finding.remedy and finding.remedy.action):
        return looks
    action = find_action_or_runbook(finding.remedy.action)
    step = NextStep(action.first_key, f"{action.title}: shows its plan first")
    return (step, *looks) if action.ends_nothing_alive else (*looks, step)
