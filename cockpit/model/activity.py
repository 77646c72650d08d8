"""Defines what a running job does: its present phase, its earlier phases, and its steps."""

from __future__ import annotations

from typing import Final, Literal, get_args

from cockpit.model.host import Process
from cockpit.model.value import Value

Phase = Literal["loading", "rollout", "scoring", "training", "weight sync", "checkpoint", "evaluation", "waiting"]
"""`scoring`: log-probabilities, reference, reward, values. `waiting`: no process of the job works, by its titles and its GPUs."""
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)


class PhaseSpan(Value, frozen=True):
    """A period in which a job was in one phase."""

    job: str
    """The key of the job."""
    phase: Phase | None
    """`None`: unknown."""
    began: float
    ended: float | None = None
    """`None`: it still runs."""
    method: str | None = None
    """`Class.method`, if the phase is unknown and a method without a row in the table ran."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"span:{self.job}:{self.began}"


class Step(Value, frozen=True):
    """A training step that has ended."""

    job: str
    began: float
    ended: float
    number: int | None = None
    """`None`: unknown, because cockpit did not see the job's first step and its log names no number."""
    is_longer: bool = False
    """A checkpoint or an evaluation was part of it, so it does not count for usual times."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"step:{self.job}:{self.began}"

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


class Laggard(Value, frozen=True):
    """A worker that still runs a method while the other workers of its class have ended theirs."""

    process: str
    """The key of the process."""
    method: str
    """`Class.method`."""
    since: float
    """When the last of the others ended the method."""
    others: int
    """The number of workers of its class that have ended the method."""


class LogSteps(Value, frozen=True):
    """The steps that the last lines of a running job's log show."""

    job: str
    """The key of the job."""
    read: float
    """When it was read."""
    framework: str
    """The framework whose form the lines have."""
    running: int
    """The number of the running step in the log. It may be late by the age of `read` and by the delay of the log itself."""
    total: int | None = None
    """How many steps there will be."""
    left: int | None = None
    """How many of them have not ended, with the running one."""
    ended: tuple[Step, ...] = ()
    """The last steps whose duration the log prints, in order. Empty in an activity: `Snapshot.steps` has them."""
    parts: tuple[tuple[Phase, float], ...] = ()
    """Seconds of each phase of the last step, as the log prints them."""
    phase: Phase | None = None
    """The phase that the log's last line about phases has begun; `None`: there is none, or it has ended."""
    phase_seen: float | None = None
    """When that line was first read."""


class ListedWorkers(Value, frozen=True):
    """The workers of running jobs on a node without a probe, from Ray's own list. The list is up to 35 s old when it is read."""

    node: str
    read: float
    workers: tuple[Process, ...]


class Activity(Value, frozen=True):
    """What a running job does now."""

    job: str
    """The key of the job."""
    phase: Phase | None = None
    """`None`: unknown."""
    also: tuple[Phase, ...] = ()
    """Other phases at the same time. Asynchronous trainers have them."""
    method: str | None = None
    """`Class.method` that runs, if the table of methods does not have it."""
    since: float | None = None
    """When the phase began; if it began before cockpit saw it, when cockpit first saw it."""
    framework: str | None = None
    """The framework whose classes it uses."""
    step: int | None = None
    """The number of the running step; `None`: unknown."""
    step_began: float | None = None
    """`None`: cockpit has not seen its begin."""
    steps_seen: int = 0
    """The number of steps that have ended since cockpit first saw the job."""
    total_steps: int | None = None
    """How many steps there will be, as the log says."""
    steps_left: int | None = None
    """How many of them have not ended, with the running one."""
    log: LogSteps | None = None
    """The steps in its log; `None`: the log has no known lines, or could not be read for a while."""
    steps_disagree: bool = False
    """The titles of the workers show another number of steps than the log, so only the log counts."""
    is_phase_logged: bool = False
    """`phase` comes from the log, because the titles hide it."""
    listed: float | None = None
    """When Ray's list of workers was read that shows the phase; `None`: probes see the titles. The list is older than that by up to 35 s,
    and the next one comes after 45 s, so it shows no times."""
    laggards: tuple[Laggard, ...] = ()

    @property
    def key(self) -> str:
        """Its identity."""
        return f"activity:{self.job}"
