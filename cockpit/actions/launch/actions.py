"""Defines the actions that submit a preset's job, or submit a job again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cockpit.actions.action import Action, DiskRead, Impact, Nouns
from cockpit.actions.action_context import ActionContext, OnProgress
from cockpit.actions.plan import ActionTarget, Plan, Receipt
from cockpit.config.document import InputError
from cockpit.model import Job, Snapshot
from cockpit.presets import Preset, read_preset

if TYPE_CHECKING:
    from cockpit.actions.launch.launch import Launches


class LaunchAction(Action):
    """The base class of both actions."""

    keys = "L"
    command = False
    nouns: ClassVar[Nouns] = {"job": ("job", "jobs")}
    key_again = "launches it"
    starts_job = True
    is_for_followed = True
    why_word = "Read the notes above first."

    def find_disk_read(self, row: Preset | Job) -> DiskRead:
        """Read the preset's file as it is now; it may have changed since the page was drawn."""
        return make_preset_read(row)

    async def plan(self, requested: ActionTarget, context: ActionContext, on_progress: OnProgress) -> Plan:
        """Plan the submission. The plan itself decides whether a word must be typed, because that depends on the other jobs."""
        return await _launches_of(context).plan(self, requested, on_progress)

    async def perform(self, plan: Plan, context: ActionContext, on_progress: OnProgress) -> Receipt:
        return await _launches_of(context).perform(plan, on_progress)

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        return Impact()


class Launch(LaunchAction):
    """Submits a preset's job."""

    id = "launch"
    title = "Launch"
    help = "Submit a preset's job to Ray with its working_dir"
    takes = Preset
    noun = "a preset"


class LaunchAgain(LaunchAction):
    """Submits a job again."""

    id = "launch-again"
    title = "Launch again"
    help = "Submit a job again: from its preset as it is now; without one, as Ray recorded it"
    takes = Job
    noun = "a job"

    def why_not(self, row: Job) -> str | None:
        """A job without a submission can't be launched again: Ray knows neither its command nor who started it where."""
        return (
            None if row.submission else f"Job {row.id} was never submitted to Ray: its driver was started by hand; start it by hand again"
        )


def _launches_of(context: ActionContext) -> Launches:
    """Return the object that keeps a planned launch until it is confirmed."""
    from cockpit.actions.launch.launch import Launches  # deferred: with it all that reads commands, 80 ms of the start

    launches: Launches = context.launches or Launches(context.monitor)
    context.launches = launches
    return launches


def make_preset_read(row: Preset | Job) -> DiskRead:
    """Return how to read a preset's file. For a job it is the file of its preset."""
    return DiskRead(str(row.path) if isinstance(row, Preset) else f"the preset of {row.id}", partial(_read, row))


def _read(row: Preset | Job) -> ActionTarget | str:
    """Return the preset as it is now (the job if it has no preset) as a target, or why its file can't be used."""
    from cockpit.actions.launch.submission import preset_of_job

    if isinstance(row, Job) and row.preset is None:
        return ActionTarget(rows=(row,))
    try:
        preset = preset_of_job(row) if isinstance(row, Job) else read_preset(row.path)
    except InputError as error:
        return str(error)
    return preset if isinstance(preset, str) else ActionTarget(rows=(preset,))
