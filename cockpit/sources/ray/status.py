"""Reads the autoscaler monitor's report of used and requested resources: JSON, or a text with autoscaler v2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cockpit.model import Demand, Quantity, Value
from cockpit.secrets import redact
from cockpit.sources.ray import wire
from cockpit.sources.ray.resources import ResourceNames, is_grouped, parse_amount, plausible_amount, plausible_int, strip_group_names
from cockpit.sources.source import SourceError

FROZEN_AFTER_S = 20.0
"""The age at which a report is refused; the monitor writes one every 5 s (AUTOSCALER_UPDATE_INTERVAL_S)."""

MAX_BUNDLES = 10_000
"""The number of equal bundles of a group that are counted; more are ignored."""


class GroupDemand(Value, frozen=True):
    """Waiting placement groups with the same bundles and strategy. Ray reports the strategy of a group only here."""

    bundles: tuple[Mapping[str, float], ...]
    strategy: str | None
    count: int


class StatusFacts(Value, frozen=True):
    """Used are the resources that tasks and actors hold, and all that placement groups have reserved."""

    usage: Mapping[str, Mapping[str, Quantity]] | None
    """The used resources by node id; `None` if there was only a text."""
    demand: tuple[Demand, ...] | None
    """The waiting tasks and actors. Tasks and actors of a waiting placement group are here and in `strategies`: never add the two."""
    strategies: tuple[GroupDemand, ...] = ()


class StatusReports:
    """Reads one report after the other: knows whether they still change, and the real names of mangled resources."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._names = ResourceNames()
        self._time: float | None = None
        self._changed = 0.0

    def update(self, status: wire.AutoscalerReport, error: str | None) -> StatusFacts:
        """Read one report. Raises `SourceError` if the monitor has stopped writing.

        The age of a report is the time since its date changed, since the clocks of hosts differ.
        """
        if status.time != self._time or self._time is None:
            self._time, self._changed = status.time, self._clock()
        elif (age := self._clock() - self._changed) > FROZEN_AFTER_S:
            why = f" ({redact(error.strip().splitlines()[-1])[:200]})" if error and error.strip() else ""
            text = f"the autoscaler monitor has reported nothing for {age:.0f} s{why}; used and pending resources are old"
            raise SourceError(text, "monitor")
        report = status.load_metrics_report or wire.LoadMetrics()
        for shape, _ in report.node_types:
            self._names.learn(shape)
        groups = []
        for group, count in report.pg_demand:
            if waiting := plausible_int(count):
                repeated = (needs for needs, times in group.bundles for _ in range(min(plausible_int(times) or 0, MAX_BUNDLES)))
                groups.append(GroupDemand(tuple(map(strip_group_names, repeated)), group.strategy, waiting))
        usage = None if report.usage_by_node is None else {
            node_id: {
                self._names.unmangle(name): Quantity(used=plausible_amount(used), total=plausible_amount(total))
                for name, (used, total) in uses.items()
                if not is_grouped(name)
            }
            for node_id, uses in report.usage_by_node.items()
        }  # fmt: skip
        return StatusFacts(
            usage=usage,
            demand=_demands((strip_group_names(needs), count) for needs, count in report.resource_demand),
            strategies=tuple(groups),
        )


def _demands(shapes: Iterable[tuple[Mapping[str, float], float]]) -> tuple[Demand, ...]:
    """The demands, with equal shapes counted together: they may have differed only in the names of placement groups."""
    counts: dict[tuple[tuple[str, float], ...], int] = {}
    for needs, count in shapes:
        if needs and (times := plausible_int(count)):
            key = tuple(sorted(needs.items()))
            counts[key] = counts.get(key, 0) + times
    return tuple(Demand(needs=dict(key), count=count) for key, count in counts.items())


_DEMAND: Final = (
    r" *(?P<shapes>\{.*\}.*?)(?: \((?P<strategy>[A-Z_]+)\))?: (?P<count>\d{1,15})\+? "
    r"(?P<what>pending tasks/actors|pending placement groups)\b.*"
)
_SHAPE: Final = r"\{([^{}]*)\}(?: \* (\d{1,15}))?"
_NEED: Final = r"'([^']+)': ([\d.e+-]+)"


def parse_status(text: str) -> StatusFacts:
    """Read the text of `ray status` (`format_info_string` in autoscaler/_private/util.py). It has the demand, but no usage by node.

    Raises `SourceError`.
    """
    if not text.partition("Usage:\n")[2].partition("\n\n")[0]:
        raise SourceError("the autoscaler's status text has no usage list; used and pending resources are unknown")
    waiting = [match for line in text.partition("Demands:\n")[2].splitlines() if (match := re.fullmatch(_DEMAND, line))]
    return StatusFacts(
        usage=None,
        demand=_demands((_shapes(match["shapes"])[0], int(match["count"])) for match in waiting if match["what"] == "pending tasks/actors"),
        strategies=tuple(
            GroupDemand(bundles=tuple(_shapes(match["shapes"])), strategy=match["strategy"], count=int(match["count"]))
            for match in waiting
            if match["what"] == "pending placement groups"
        ),
    )


def _shapes(text: str) -> list[dict[str, float]]:
    return [
        strip_group_names({name: parse_amount(amount) for name, amount in re.findall(_NEED, inner)})
        for inner, times in re.findall(_SHAPE, text)
        for _ in range(min(int(times or 1), MAX_BUNDLES))
    ]
