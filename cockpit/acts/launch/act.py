"""A preset's job, or one that Ray knows, is submitted once. `launch` makes its plans and does them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cockpit.acts.act import Act, DiskRead, Impact, Nouns
from cockpit.acts.plan import Aim, Plan, Receipt
from cockpit.config.document import InputError
from cockpit.model import Job, Snapshot
from cockpit.presets import Preset, read_preset

if TYPE_CHECKING:
    from cockpit.acts.world import ActContext, Hear


class LaunchAct(Act):
    """What both share."""

    keys = "L"
    command = False
    nouns: ClassVar[Nouns] = {"job": ("job", "jobs")}
    key_again = "launches it"
    starts_job = True
    is_for_followed = True
    why_word = "Read the notes above first."

    def find_disk_read(self, row: Preset | Job) -> DiskRead:
        """Its file, with what that holds now, not what it held when the page was drawn."""
        return reading_of_preset(row)

    async def plan(self, aim: Aim, context: ActContext, hear: Hear) -> Plan:
        """What would be submitted; the word, where one is asked for, is the plan's own: only it knows which other jobs there are."""
        from cockpit.acts.launch.launch import Launches  # deferred: what packs folders is no part of a start

        return await context.keep(Launches).plan(self, aim, hear)

    async def perform(self, plan: Plan, context: ActContext, hear: Hear) -> Receipt:
        from cockpit.acts.launch.launch import Launches  # deferred, as above

        return await context.keep(Launches).perform(plan, hear)

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        return Impact()


class Launch(LaunchAct):
    """A preset's job."""

    id = "launch"
    title = "Launch"
    help = "Submit a preset's job to Ray with its working_dir"
    takes = Preset
    noun = "a preset"


class LaunchAgain(LaunchAct):
    """A job once more."""

    id = "launch-again"
    title = "Launch again"
    help = "Submit a job again: from its preset as it is now; without one, as Ray recorded it"
    takes = Job
    noun = "a job"

    def why_not(self, row: Job) -> str | None:
        """It runs on whatever host it was started on, by whoever did: Ray knows no more of it."""
        return (
            None if row.submission else f"Job {row.id} was never submitted to Ray: its driver was started by hand; start it by hand again"
        )


def reading_of_preset(row: Preset | Job) -> DiskRead:
    """The file of a preset, or of that which a job was launched from."""
    return DiskRead(str(row.path) if isinstance(row, Preset) else f"the preset of {row.id}", partial(_read, row))


def _read(row: Preset | Job) -> Aim | str:
    from cockpit.acts.launch.submission import preset_of_job  # deferred, as above

    if isinstance(row, Job) and row.preset is None:
        return Aim(rows=(row,))
    try:
        preset = preset_of_job(row) if isinstance(row, Job) else read_preset(row.path)
    except InputError as error:
        return str(error)
    return preset if isinstance(preset, str) else Aim(rows=(preset,))
