"""Writes a snapshot for Prometheus, in text format 0.0.4; `metric_families` has the table of all families.

Unknown values have no sample; 0 is a counted number. All families are gauges: each value is from one sample of the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from cockpit.model import Snapshot
from cockpit.report.metric_families import FAMILIES, MetricFacts
from cockpit.report.status import exit_code
from cockpit.text import clean

MAX_SERIES = 10_000
"""Series of one family: 1,000 nodes have 8,000 GPUs."""
MAX_LABEL = 128
"""Characters of one label."""
LEFT_OUT = "cockpit_series_left_out"


def metrics_text(snapshot: Snapshot, named: Collection[str] = ()) -> str:
    """The text that Prometheus reads; `named`: as for `exit_code`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Look(MetricFacts.of(snapshot, exit_code(snapshot, named))))
    return generate_latest(registry).decode()


class _Look(Collector):
    """Collects every family that has a sample, and the number of series left out of each."""

    def __init__(self, facts: MetricFacts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[GaugeMetricFamily]:
        left_out = GaugeMetricFamily(
            LEFT_OUT, "Series left out by the limit, or because another has the same labels, by family.", labels=["family"]
        )
        for family in FAMILIES:
            gauge = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            seen: set[tuple[str, ...]] = set()
            missing = 0
            for foreign_labels, value in family.samples(self._facts):
                if value is None or not math.isfinite(value):
                    continue
                labels = tuple(clean(label)[:MAX_LABEL] for label in foreign_labels)
                if labels in seen or len(seen) >= MAX_SERIES:  # two series with the same labels make Prometheus refuse the whole text
                    missing += 1
                    continue
                seen.add(labels)
                gauge.add_metric(labels, float(value))
            if gauge.samples:
                yield gauge
            if missing:
                left_out.add_metric([family.name], missing)
        if left_out.samples:
            yield left_out
