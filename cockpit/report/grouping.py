"""Shortens texts about pending work: placement groups with equal needs share a line, and a long reason is written once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec.structs import replace

from cockpit.model import Finding, PlacementGroup, Snapshot
from cockpit.placement import needs_words
from cockpit.text.grouping import group_by

LONG_REASON_CHARS = 60
"""A reason of this length or more is written once; after that it is a reference."""


def bundles_words(group: PlacementGroup) -> str:
    """`8 x {1 GPU, 1 CPU}`: the bundles of a group, equal ones counted."""
    shapes = Counter(needs_words(bundle.needs) for bundle in group.bundles)
    return " + ".join(f"{number} x {{{shape}}}" for shape, number in sorted(shapes.items()))


def alike_groups(groups: Iterable[PlacementGroup]) -> list[list[PlacementGroup]]:
    """Pending groups: a list for each job, needs and reason, in the order of their first groups."""
    pending = (group for group in groups if group.pending)
    return [*group_by(pending, lambda group: (group.job, group.state, group.strategy, bundles_words(group), group.why)).values()]


class Repeats:
    """Remembers the long reasons that a text has already written."""

    def __init__(self, snapshot: Snapshot = Snapshot()) -> None:  # noqa: B008 a value
        self._snapshot = snapshot
        self._first: dict[str, str] = {}
        """By reason: the thing that it was first written for."""

    def shorten(self, reason: str, name: str) -> str:
        """The reason why `name` is pending; ends with `see group X` if the rest was already written for group X."""
        for written, first in self._first.items():
            if reason.endswith(written):
                return f"{reason.removesuffix(written)}see {first}"
        if len(reason) >= LONG_REASON_CHARS:
            self._first[reason] = name
        return reason

    def shorten_finding(self, finding: Finding) -> Finding:
        """The finding, with the reasons in its text shortened."""
        text = finding.text
        for reason in dict.fromkeys(self._reasons[key] for key in finding.about if key in self._reasons):
            if reason in text:
                text = text.replace(reason, self.shorten(reason, f"the {finding.level} finding on {finding.subject}"))
        return replace(finding, text=text)

    @cached_property
    def _reasons(self) -> Mapping[str, str]:
        """Reasons of all pending groups and actors, by key."""
        groups = {group.key: group.why for group in self._snapshot.placement_groups or () if group.why}
        return groups | {actor.key: actor.why for actor in self._snapshot.actors or () if actor.why}
