"""Plays what the workers of a job do, and lets an `ActivityTracker` watch it as a probe would: a sample every two seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from cockpit.model import Activity, Host, Job, Process, Snapshot
from cockpit.phases import ActivityTracker
from tests.world import NOW, process, snapshot

JOB = Job("ppo", "02000000", "ppo", "RUNNING", started=NOW - 10)
SAMPLE_S, LOOK_S = 2.0, 1.0


class Course:
    """Time passes by `do`. Titles are looked at every second, and reported with the next sample."""

    def __init__(self, *workers: str, looks: bool = True, **facts: Any) -> None:
        """`workers`: the class of each. `looks`: whether the probe also looks between two samples."""
        self.tracker, self.looks, self.facts = ActivityTracker(), looks, facts
        self.classes = workers
        self.titles = [f"ray::{name}" for name in workers]
        self._looked: list[str] = list(self.titles)
        self._changes: list[list[tuple[float, str]]] = [[] for _ in workers]
        self.now = NOW
        self.states = ["S"] * len(workers)
        self.seen: list[tuple[float, Activity]] = []
        self.last = self._sample()

    def do(self, seconds: float, method: str = "", *only: int) -> None:
        """All workers, or `only` these, run a method for so long; then they are idle. Without a method all are idle."""
        chosen = only or tuple(range(len(self.classes)))
        self.run({place: f"{self.classes[place]}.{method}" if method else self.classes[place] for place in chosen}, seconds)
        self.run({place: self.classes[place] for place in chosen}, 0.0)

    def run(self, titles: Mapping[int, str], seconds: float) -> None:
        """These workers have these titles from now on; so many seconds pass."""
        for place, title in titles.items():
            self.titles[place] = f"ray::{title}"
        until = self.now + seconds
        while (look := NOW + LOOK_S * (int((self.now - NOW) / LOOK_S + 1e-6) + 1)) <= until:
            self.now = look
            for place, title in enumerate(self.titles):
                if title != self._looked[place]:
                    self._looked[place] = title
                    self._changes[place].append((look, title))
            if (look - NOW) % SAMPLE_S == 0:
                self.last = self._sample()
        self.now = until

    def _sample(self) -> Snapshot:
        workers = tuple(self._process(place) for place in range(len(self.titles)))
        self._changes = [[] for _ in self.titles]
        seen = snapshot(
            **{
                "taken": self.now,
                "jobs": (JOB,),
                "processes": workers,
                "hosts": {"node1": Host("node1", ("10.0.0.1",), self.now)},
                "actors": (),
                **self.facts,
            }
        )
        found = self.tracker.add_activities(seen)
        self.seen += [(self.now, one) for one in found.activities]
        return found

    def _process(self, place: int) -> Process:
        title = self._looked[place] if self.looks else self.titles[place]
        changes = tuple(self._changes[place]) if self.looks else ()
        made = process(100 + place, host="node1", kind="worker", job=JOB.job, command=title, state=self.states[place])
        return replace(made, titles=changes)

    @property
    def activity(self) -> Activity:
        """The last activity."""
        return self.last.activities[0]

    @property
    def phases(self) -> list[str | None]:
        """The phases so far, in order."""
        return [span.phase for span in self.last.spans]

    def spans_from_start(self) -> Sequence[tuple[str | None, float]]:
        """The phases with the seconds from the start at which they began."""
        return [(span.phase, round(span.began - NOW, 1)) for span in self.last.spans]
