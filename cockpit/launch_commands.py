"""`cockpit launch`: a preset's job, planned, submitted once, and followed to its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from cockpit.actions.audit import Audit, audit_path
from cockpit.actions.plan import Receipt
from cockpit.actions.table import Aim, find_act
from cockpit.commands import BAD_USAGE, DONE, NOT_ALL, UNREACHABLE, ActCommand, Ending, agreed, fail, refuse
from cockpit.config import Config, several
from cockpit.document import InputError
from cockpit.model import SUPERVISOR, Job, Snapshot
from cockpit.presets import Preset, find_preset, launchable
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import clean

if TYPE_CHECKING:
    from cockpit.lookout import Lookout

PATIENCE = 4.0
"""Seconds for which a job may be pending before it is said why it is."""
ASKED_AGAIN = 15.0
LONGEST = 20
"""Lines of what Ray says of a job that has failed."""
LOOKS = 20
"""At whether it is over, half a second apart, once its log is."""


def launch_command(options: Callable[[Any], Any], configured: Callable[[Any], Any]) -> click.Command:
    """`options` are the flags of everything that looks at a cluster."""

    @click.command("launch", cls=ActCommand)
    @click.argument("preset")
    @click.option("--no-follow", is_flag=True, help="Only submit it; don't print its log.")
    @click.option("--dry-run", is_flag=True, help="Print the plan, do nothing.")
    @click.option("--yes", is_flag=True, help="Don't ask.")
    @click.option("--force", is_flag=True, help="Also where a job of this preset runs already, or this one can never fit.")
    @click.option("--json", "as_json", is_flag=True, help="Plan and outcome, for scripts; the log is not followed.")
    @options
    @configured
    def launch(config: Config, preset: str, *, no_follow: bool, **how: Any) -> None:
        """Submit a preset's job to Ray, with its working_dir, once, and print its log until it is over.

        PRESET is a name, or a file such as ./ppo.yaml.

        Exit: 0 succeeded (with --no-follow: submitted), 1 failed or not submitted, 2 bad usage, 3 nothing reachable.
        """
        if config.readonly:
            sys.exit(refuse("launch: cockpit is read-only here", NOT_ALL))
        try:
            found = find_preset(preset)
        except InputError as error:
            sys.exit(fail(str(error), BAD_USAGE, as_json=how["as_json"]))
        sys.exit(_run(config, found, follow=not (no_follow or how["as_json"] or how["dry_run"]), **how))

    return launch


def _run(config: Config, preset: Preset, **how: Any) -> int:
    ending = Ending()
    try:
        code = asyncio.run(_launched(config, preset, ending, **how))
    except asyncio.CancelledError:
        code = refuse("nothing was submitted", NOT_ALL)
    except BrokenPipeError:
        code = DONE
    return code if ending.number is None else 128 + ending.number


async def _launched(config: Config, preset: Preset, ending: Ending, *, follow: bool, force: bool, **how: Any) -> int:
    from cockpit.door import Door
    from cockpit.lookout import look_once

    ending.cancels(asyncio.current_task())
    lookout = await look_once(config)
    if lookout.undecided:
        return fail(several(lookout.undecided), UNREACHABLE, as_json=how["as_json"])
    door = Door(lookout, Audit(audit_path(), lookout.clock))
    try:
        plan = await door.plan(find_act("launch"), Aim(rows=(preset,), force=force))
        if how["yes"] and plan.word is not None and not how["dry_run"]:
            return fail(f"{plan.notes[0]}; --force launches it all the same", NOT_ALL, as_json=how["as_json"])
        code, receipt = await agreed(door, plan, ending, **how)
    except NotMeantError as error:
        return fail(str(error), NOT_ALL, as_json=how["as_json"])
    except SourceError as error:
        return fail(str(error), UNREACHABLE, as_json=how["as_json"])
    finally:
        door.close()
    name = _submitted(receipt)
    if name and not follow and not how["as_json"]:
        click.echo(f"cockpit: its log: cockpit logs -f {name}", err=True)
    return await _followed(config, lookout, name, preset) if follow and name else code


def _submitted(receipt: Receipt | None) -> str | None:
    return next((target.id for target in receipt.done), None) if receipt else None


async def _followed(config: Config, lookout: Lookout, name: str, preset: Preset) -> int:
    """The log to stdout, what is said about it to stderr."""
    from cockpit.submission import hiding

    hide = hiding(launchable(preset, os.environ).hidden)
    waiting = asyncio.create_task(_say_why(config, lookout, name, hide))
    click.echo(err=True)
    try:
        async for batch in lookout.follow_log(name, -1):
            waiting.cancel()
            for line in batch:
                click.echo(clean(hide(line)) if sys.stdout.isatty() else hide(line))
        return _ended(await _over(lookout, name), hide)
    except SourceError as error:
        return refuse(f"{error}\njob {name} may go on: cockpit logs -f {name}", UNREACHABLE)
    except asyncio.CancelledError:
        return refuse(f"no longer followed; job {name} goes on: cockpit logs -f {name}, and cockpit stop-job {name} ends it", NOT_ALL)
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting


async def _over(lookout: Lookout, name: str) -> Job | None:
    """Its log is over a moment before it is."""
    for _ in range(LOOKS):
        job: Job | None = next((job for job in await lookout.jobs() if job.id == name), None)
        if job is None or not job.running:
            return job
        await asyncio.sleep(0.5)
    return job


def _ended(job: Job | None, hide: Callable[[str], str]) -> int:
    if job is None:
        return refuse("Ray knows this job no more: how it ended is not known", UNREACHABLE)
    if job.status == "SUCCEEDED":
        click.echo(f"cockpit: job {job.id} SUCCEEDED", err=True)
        return DONE
    lines = story(job.message or "")
    for line in lines if job.driver_node is None else lines[:1]:  # the log, which has been printed, follows the first line
        click.echo(f"  {clean(hide(line))}", err=True)
    return refuse(f"job {job.id} {'is still ' if job.running else ''}{job.status}", NOT_ALL)


def story(message: str) -> list[str]:
    """What Ray says of a job that has failed, without the inside of its tracebacks."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    begins = next((index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line), len(lines))
    inside = max((index for index, line in enumerate(lines) if line.startswith(" ") and index > begins), default=begins - 1)
    return [*lines[:begins], *lines[inside + 1 :]][:LONGEST]


async def _say_why(config: Config, lookout: Lookout, name: str, hide: Callable[[str], str]) -> None:
    """A job that waits is no silent one."""
    told = None
    await asyncio.sleep(PATIENCE)
    while True:
        with suppress(SourceError):
            job = next((job for job in await lookout.jobs() if job.id == name), None)
            if job is None or job.status != "PENDING":
                return
            why = await _why(config, job)
            if why != told:
                click.echo(f"cockpit: job {name} is PENDING: {clean(hide(why))}", err=True)
                told = why
        await asyncio.sleep(ASKED_AGAIN)


async def _why(config: Config, job: Job) -> str:
    """What is known here of the actor that is to run it, else what Ray says."""
    from cockpit.lookout import look_once

    snapshot: Snapshot = (await look_once(config)).poller.snapshot
    actor = next((actor for actor in snapshot.actors or () if actor.name == f"{SUPERVISOR}{job.id}"), None)
    return (actor.why if actor else None) or job.message or "Ray does not say why"
