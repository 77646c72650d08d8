"""What the autoscaler monitor says of resources that are handed out or waited for, as a blob or, under autoscaler v2, as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Raw

from cockpit.model import Demand, Quantity, Value
from cockpit.secrets import redact
from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.ray import wire
from cockpit.sources.ray.resources import ResourceNames, is_grouped, parse_amount, plausible_amount, strip_group_names, whole
from cockpit.sources.source import SourceError

FROZEN_AFTER_S = 20.0
"""The monitor writes every 5 s (AUTOSCALER_UPDATE_INTERVAL_S)."""

MAX_BUNDLES = 10_000
"""Bundles of one shape, beyond which no more are counted."""


class GroupDemand(Value, frozen=True):
    """So many waiting placement groups of one shape. Only here does Ray tell a group's strategy."""

    bundles: tuple[Mapping[str, float], ...]
    strategy: str | None
    count: int


class StatusFacts(Value, frozen=True):
    """Handed out is what tasks and actors hold, and what placement groups have reserved, used or not."""

    usage: Mapping[str, Mapping[str, Quantity]] | None
    """By node id; `None` where only a text was to be had."""
    demand: tuple[Demand, ...] | None
    """Waiting tasks and actors. Those bound to a waiting placement group are here and in `strategies`: never add the two."""
    strategies: tuple[GroupDemand, ...] = ()


class StatusReports:
    """The blobs so far: whether they still change, and real names for the mangled ones in them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._names = ResourceNames()
        self._time: float | None = None
        self._changed = 0.0
        self._usage: dict[str, tuple[tuple[bytes, int], Mapping[str, Quantity]]] = {}
        """By node id: what the last blob said of it and how many names were known then; and what that means."""

    def take(self, status: wire.AutoscalerReport, error: str | None) -> StatusFacts:
        """One blob; refused when the monitor has stopped writing. Only changes of its time count: clocks of hosts differ."""
        if status.time != self._time or self._time is None:
            self._time, self._changed = status.time, self._clock()
        elif (age := self._clock() - self._changed) > FROZEN_AFTER_S:
            why = f" ({redact(error.strip().splitlines()[-1])[:200]})" if error and error.strip() else ""
            text = f"the autoscaler monitor has reported nothing for {age:.0f} s{why}; used and pending resources are old"
            raise SourceError(text, "monitor")
        report = status.load_metrics_report or wire.LoadMetrics()
        for shape, _ in report.node_types:
            self._names.learn(shape)
        nodes = report.usage_by_node
        return StatusFacts(
            usage=self._read_usage(nodes) if nodes is not None else None,
            demand=_demands((strip_group_names(needs), count) for needs, count in report.resource_demand),
            strategies=tuple(_group(shape, times) for shape, count in report.pg_demand if (times := whole(count))),
        )

    def _read_usage(self, nodes: Mapping[str, Raw]) -> dict[str, Mapping[str, Quantity]]:
        """Of most nodes a blob says what the last one said: at 1,000 nodes to read all of them took 7% of the screen's CPU."""
        before, self._usage = self._usage, {}
        for node_id, raw in nodes.items():
            of, known = (bytes(raw), self._names.count), before.get(node_id)
            self._usage[node_id] = known if known and known[0] == of else (of, self._quantities(_read_uses(raw)))
        return {node_id: usage for node_id, (_, usage) in self._usage.items()}

    def _quantities(self, usage: Mapping[str, tuple[float, float]]) -> dict[str, Quantity]:
        return {
            self._names.unmangle(name): Quantity(used=plausible_amount(used), total=plausible_amount(total))
            for name, (used, total) in usage.items()
            if not is_grouped(name)
        }


def _read_uses(usage: Raw) -> wire.Uses:
    try:
        return decode(usage, wire.Uses)
    except NotRayError as error:
        raise SourceError(f"the autoscaler monitor's report of used resources is not in Ray's format: {error}", "monitor") from None


def _group(shape: wire.GroupShape, count: int) -> GroupDemand:
    bundles = tuple(strip_group_names(needs) for needs, times in shape.bundles for _ in range(min(whole(times) or 0, MAX_BUNDLES)))
    return GroupDemand(bundles=bundles, strategy=shape.strategy, count=count)


def _demands(shapes: Iterable[tuple[Mapping[str, float], float]]) -> tuple[Demand, ...]:
    """One for each shape, now that the names of placement groups are off."""
    counts: dict[tuple[tuple[str, float], ...], int] = {}
    for needs, count in shapes:
        if needs and (times := whole(count)):
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
    """What `ray status` prints (`format_info_string` in autoscaler/_private/util.py): what waits, nothing by node."""
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
