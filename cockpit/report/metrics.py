"""Writes a snapshot for Prometheus, in text format 0.0.4; `metric_families` has the table of all families.

Unknown values have no sample; 0 is a counted number. All families are gauges: each value is from one sample of the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Snapshot
from cockpit.report.metric_families import FAMILIES, MetricFacts
from cockpit.report.status import exit_code
from cockpit.secrets import redact
from cockpit.text import clean
from cockpit.times.clock import CLOCK

MAX_SERIES = 10_000
"""Series of one family: 1,000 nodes have 8,000 GPUs."""
MAX_LABEL = 128
"""Characters of one label."""
LEFT_OUT = "cockpit_series_left_out"
AGE = "cockpit_look_age_seconds"


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
                labels = tuple(map(_safe_label, foreign_labels))
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


@lru_cache(1 << 16)
def _safe_label(foreign: str) -> str:
    """Return a name in the cluster as it may be shown to whoever asks. Kept, as thousands of series have the same few names."""
    return clean(redact(foreign[: 8 * MAX_LABEL]))[:MAX_LABEL]


class NewestMetrics(Collector):
    """Collects the newest snapshot at each scrape: nothing before the first, and only the age of one that is too old.

    Prometheus gives each value the time of the scrape, so an old value would look new.
    """

    def __init__(self, named: Collection[str] = (), clock: Callable[[], float] = CLOCK) -> None:
        """`named`: as for `exit_code`."""
        self._named, self._clock = named, clock
        self._snapshot: Snapshot | None = None

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Take a new snapshot. Scrapes are answered in other threads."""
        self._snapshot = snapshot

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families for one scrape."""
        if (snapshot := self._snapshot) is None:
            return
        age = max(0.0, self._clock() - snapshot.taken)
        if age <= STALE_AFTER_S:
            yield from _Look(MetricFacts.of(snapshot, exit_code(snapshot, self._named))).collect()
        yield GaugeMetricFamily(AGE, "Age of this sample when Prometheus asked; only with --listen.", value=age)
