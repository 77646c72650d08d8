"""Defines a step of the runbook: its description, the progress of each host, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from cockpit.actions.plan import Plan, Receipt
from cockpit.model import Value

StepState = Literal["waiting", "planned", "running", "done", "failed", "skipped"]
"""`planned`: all its targets are known."""
WILL: Final[Mapping[str, tuple[str, str]]] = {
    "stop": ("Stop Ray", "stop this cluster's Ray on every host where it is known to run"),
    "kill-orphans": ("Kill orphans", "kill orphan and stale processes on these hosts, and nothing else"),
    "clean": (
        "Clean",
        "remove files of dead sessions in temp dirs and /dev/shm; what looks like a checkpoint or a core dump is kept",
    ),
    "hosts": ("Check hosts", "check each host: GPUs, ports, Ray and Python, memory, /dev/shm, disk"),
    "start": ("Start Ray", "start the head, then all workers, each with its flags and the preset's environment"),
    "wait": ("Wait", "wait until all nodes have joined with all their GPUs, and the dashboard answers"),
    "check": ("Check the job", "check whether the job fits now"),
    "launch": ("Launch", "submit the preset's job"),
    "follow": ("Follow", "wait until the job shows progress"),
}
"""Title and description of each step, in the order of the runbook."""
NAMES: Final = tuple(WILL)
OF_JOB: Final = ("check", "launch", "follow")
"""Steps that only a preset with a job has."""


class StepError(Exception):
    """A step has failed; its text is one sentence."""

    def __init__(self, text: str, begin: str | None = None) -> None:
        """`begin` is the earlier step that must be repeated first, if repeating this one would fail again."""
        super().__init__(text)
        self.begin = begin


class Step(Value, frozen=True):
    """One step, at one moment."""

    name: str
    title: str
    will: str
    """Its description."""
    state: StepState = "waiting"
    hosts: Mapping[str, str] = {}
    """The progress of each host."""
    lines: tuple[str, ...] = ()
    """Its results, one sentence each."""
    error: str | None = None
    """Why it has failed."""
    begin: str | None = None
    """After a failure: the earlier step to begin again with, if there is one."""
    plan: Plan | None = None
    receipts: tuple[Receipt, ...] = ()
    """The results of its actions, also if it has failed later."""
    took: float | None = None

    @property
    def go_on(self) -> str:
        """The step to continue with when the cause of the failure is gone."""
        return self.begin or self.name


def steps_of(*, job: bool, follow: bool) -> tuple[Step, ...]:
    """Return all steps of a runbook, in order."""
    left = [name for name in NAMES if (job or name not in OF_JOB) and (follow or name != "follow")]
    return tuple(Step(name, *WILL[name]) for name in left)
