"""Groups of one kind that a job makes one after the other, as one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from cockpit.budget import Group
from cockpit.placement import Ask, Shape, ask, shape


class GroupRun(msgspec.Struct, frozen=True):
    """Groups of one kind that are made one after the other."""

    group: Group
    number: int
    ask: Ask

    @property
    def sure(self) -> Ask:
        """Without what depends on the framework's release, which the command leaves open."""
        unsure = self.group.unsure
        if not unsure:
            return self.ask
        counted: Counter[Shape] = Counter()
        for each, number in self.ask.shapes:
            counted[Shape(tuple(one for one in each.amounts if one[0] not in unsure), each.labels)] += number
        return ask(counted, self.ask.strategy)

    @property
    def title(self) -> str:
        """`vLLM`, or `pool (4 groups)`."""
        return f"{self.group.name} ({self.number} groups)" if self.number > 1 else self.group.name


def runs_of(groups: Iterable[Group]) -> Iterator[GroupRun]:
    """Groups of one name, shape and strategy that follow each other are one run."""
    for (_, shapes, strategy), same in groupby(groups, key=lambda group: (group.name, _shapes(group), group.strategy)):
        group = next(same)
        counted = Counter[Shape]()
        for each, number in shapes:
            counted[each] += number
        if counted:
            yield GroupRun(group, 1 + sum(1 for _ in same), ask(counted, strategy or "PACK"))


def _shapes(group: Group) -> tuple[tuple[Shape, int], ...]:
    return tuple((shape(needs), number) for needs, number in group.bundles or () if number > 0)
