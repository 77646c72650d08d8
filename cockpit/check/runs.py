"""Combines equal placement groups that a job makes one after the other into one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from cockpit.budget import Group
from cockpit.placement import Request, Shape, make_request, shape


class GroupRun(msgspec.Struct, frozen=True):
    """Equal groups that are made one after the other."""

    group: Group
    number: int
    request: Request

    @property
    def sure(self) -> Request:
        """The request without the resources whose amount depends on the framework's release, which is unknown."""
        unsure = self.group.unsure
        if not unsure:
            return self.request
        counted: Counter[Shape] = Counter()
        for each, number in self.request.shapes:
            counted[Shape(tuple(one for one in each.amounts if one[0] not in unsure), each.labels)] += number
        return make_request(counted, self.request.strategy)

    @property
    def title(self) -> str:
        """`vLLM`, or `pool (4 groups)`."""
        return f"{self.group.name} ({self.number} groups)" if self.number > 1 else self.group.name


def runs_of(groups: Iterable[Group]) -> Iterator[GroupRun]:
    """Yield one run for consecutive groups with the same name, bundles and strategy."""

    def shapes_of(group: Group) -> tuple[tuple[Shape, int], ...]:
        return tuple((shape(needs), number) for needs, number in group.bundles or () if number > 0)

    for (_, shapes, strategy), same in groupby(groups, key=lambda group: (group.name, shapes_of(group), group.strategy)):
        group = next(same)
        counted = Counter[Shape]()
        for each, number in shapes:
            counted[each] += number
        if counted:
            yield GroupRun(group, 1 + sum(1 for _ in same), make_request(counted, strategy or "PACK"))
