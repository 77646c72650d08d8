"""A snapshot as Prometheus reads it: text format 0.0.4, of which every family stands in one table.

What is unknown has no sample, and 0 is a number that somebody has counted. All families are gauges: each is what one look saw.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from cockpit.model import Snapshot
from cockpit.report.metric_families import FAMILIES, Family, MetricFacts, Sample
from cockpit.report.status import exit_code
from cockpit.text import clean

MAX_SERIES = 10_000
"""Of one family: 1,000 nodes have 8,000 GPUs."""
MAX_LABEL = 128
"""Characters of one label."""
LEFT_OUT = "cockpit_series_left_out"


def metrics_text(snapshot: Snapshot, named: Collection[str] = ()) -> str:
    """`named`: as of `exit_code`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Look(MetricFacts.of(snapshot, exit_code(snapshot, named))))
    return generate_latest(registry).decode()


class _Look(Collector):
    """Every family that has a sample, and how many samples had no room."""

    def __init__(self, facts: MetricFacts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[GaugeMetricFamily]:
        left_out = GaugeMetricFamily(
            LEFT_OUT, "Series left out by the limit, or because another has the same labels, by family.", labels=["family"]
        )
        for family in FAMILIES:
            gauge, missing = _gauge(family, self._facts)
            if gauge.samples:
                yield gauge
            if missing:
                left_out.add_metric([family.name], missing)
        if left_out.samples:
            yield left_out


def _gauge(family: Family, facts: MetricFacts) -> tuple[GaugeMetricFamily, int]:
    """With how many of its samples were left out: two of the same labels make Prometheus refuse all that there is."""
    gauge = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    seen: set[tuple[str, ...]] = set()
    missing = 0
    for labels, value in _known(family.samples(facts)):
        if labels in seen or len(seen) >= MAX_SERIES:
            missing += 1
            continue
        seen.add(labels)
        gauge.add_metric(labels, value)
    return gauge, missing


def _known(samples: Iterable[Sample]) -> Iterator[tuple[tuple[str, ...], float]]:
    for labels, value in samples:
        if value is not None and math.isfinite(value):
            yield tuple(clean(label)[:MAX_LABEL] for label in labels), float(value)
