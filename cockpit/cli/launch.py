"""Submits a preset's job once, and prints its log until it ends (`cockpit launch`)."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import click

from cockpit.actions.executor import ActionExecutor
from cockpit.actions.launch.submission import secret_hider
from cockpit.actions.plan import ActionTarget
from cockpit.actions.table import find_action
from cockpit.cli.actions import EndSignal, ask_and_perform, print_failure, run_until_signal
from cockpit.cli.completion import complete_presets
from cockpit.cli.options import BAD_USAGE, DONE, NO_ANSWER, NOT_ALL, cluster_options, command, consent_options, print_error, with_config
from cockpit.cli.status import sample_one_cluster
from cockpit.cli.targets import explain
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.findings.failures import reason_in_log
from cockpit.model import SUPERVISOR, Job
from cockpit.monitor.failure_reader import MAX_LOG_LINES
from cockpit.monitor.monitor import ClusterMonitor, sample_once
from cockpit.presets import Preset, fill_preset, find_preset
from cockpit.secrets import LineRedactor
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import output

PENDING_GRACE_S = 4.0
"""Seconds for which a job may be pending before the reason is printed."""
PENDING_INTERVAL_S = 15.0
"""Seconds between two looks for the reason."""
MAX_FAILURE_LINES = 20
"""Lines that are printed of Ray's message about a failed job."""
END_POLLS = 20
"""How often Ray is asked whether the job has ended, after the end of its log."""
END_INTERVAL_S = 0.5


@command(
    "launch", {0: "job succeeded (--no-follow: submitted)", 1: "job failed, or not submitted", 3: "no answer, no such preset, or bad usage"}
)
@click.argument("preset", shell_complete=complete_presets)
@click.option("--no-follow", is_flag=True, help="Submit the job and exit; don't print its log.")
@consent_options
@click.option("--force", is_flag=True, help="Submit even if a job of this preset is running, or if it can never fit.")
@click.option("--json", "as_json", is_flag=True, help="Print plan and outcome as JSON, for scripts; don't print the log.")
@cluster_options
@with_config
def launch(config: Config, preset: str, *, no_follow: bool, dry_run: bool, yes: bool, force: bool, as_json: bool) -> int:
    """Submit a preset's job once and print its log.

    PRESET is a name, or a file such as ./ppo.yaml. Its working_dir is packed and uploaded. The log is printed until the job ends.
    """

    async def submit(ending: EndSignal) -> int:
        try:
            found = find_preset(preset)
            monitor = await sample_one_cluster(config)
        except InputError as error:
            return print_failure(str(error), BAD_USAGE, as_json=as_json)
        executor = ActionExecutor(monitor)
        try:
            plan = await executor.plan(find_action("launch"), ActionTarget(rows=(found,), force=force))
            if yes and plan.word is not None and not dry_run:
                return print_failure(f"{plan.notes[0]}; --force submits it anyway", NOT_ALL, as_json=as_json)
            code, receipt = await ask_and_perform(executor, plan, ending, dry_run=dry_run, yes=yes, as_json=as_json)
        except SourceError as error:
            code = NOT_ALL if isinstance(error, NotMeantError) else NO_ANSWER
            return print_failure(explain(error, monitor.poller.snapshot), code, as_json=as_json)
        finally:
            executor.close()
        job = next((target.id for target in receipt.done), None) if receipt else None
        if job is None or as_json:
            return code
        if no_follow:
            output.print_note(f"print its log: cockpit logs -f {job}")
            return code
        return await follow(config, monitor, job, found)

    try:
        return run_until_signal("launch", config, submit, "submitted")
    except BrokenPipeError:
        return DONE


async def follow(config: Config, monitor: ClusterMonitor, name: str, preset: Preset) -> int:
    """Print the log to stdout; print to stderr why the job is pending, and how it ended. Return the exit code."""
    hide, hide_others = secret_hider(fill_preset(preset, os.environ).hidden), LineRedactor()
    waiting = asyncio.create_task(_print_why_pending(config, monitor, name, hide))
    output.print_line(err=True)
    last_lines: deque[str] = deque(maxlen=MAX_LOG_LINES)
    try:
        async for batch in monitor.follow_log(name, -1):
            waiting.cancel()
            last_lines.extend(batch)
            for line in batch:
                output.print_log_line(hide(line), hide_others)
        # Ray ends the job a moment after its log.
        for _ in range(END_POLLS):
            job = await _find_job(monitor, name)
            if job is None or not job.running:
                break
            await asyncio.sleep(END_INTERVAL_S)
    except SourceError as error:
        return print_error(f"{error}\njob {name} may still be running; print its log: cockpit logs -f {name}", NO_ANSWER)
    except asyncio.CancelledError:
        where = f"Log: cockpit logs -f {name}. Stop: cockpit stop-job {name}"
        return print_error(f"log no longer printed; job {name} keeps running. {where}", NOT_ALL)
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting

    if job is None:
        return print_error("Ray no longer lists this job: how it ended is unknown", NO_ANSWER)
    if job.status == "SUCCEEDED":
        output.print_note(f"job {job.id} SUCCEEDED")
        return DONE
    lines = failure_lines(job.message or "")
    for line in lines if job.driver_node is None else lines[:1]:  # the other lines are the end of the log, which has been printed
        output.print_line(f"  {hide(line)}", err=True)
    entrypoint = job.entrypoint or ""
    if job.status == "FAILED" and (reason := reason_in_log(last_lines, entrypoint) or reason_in_log(lines, entrypoint)):
        output.print_line(f"  reason: {hide(reason)}", err=True)
    return print_error(f"job {job.id} {'is still ' if job.running else ''}{job.status}", NOT_ALL)


async def _find_job(monitor: ClusterMonitor, name: str) -> Job | None:
    """The job as Ray lists it now; `None`: Ray does not list it."""
    return next((job for job in await monitor.jobs() if job.id == name), None)


async def _print_why_pending(config: Config, monitor: ClusterMonitor, name: str, hide: Callable[[str], str]) -> None:
    """Print the reason whenever it changes, until the job is not pending any more."""
    printed = None
    await asyncio.sleep(PENDING_GRACE_S)
    while True:
        with suppress(SourceError):
            job = await _find_job(monitor, name)
            if job is None or job.status != "PENDING":
                return
            # cockpit's own reason for the job's supervisor actor, else Ray's message.
            snapshot = (await sample_once(config)).poller.snapshot
            actor = next((actor for actor in snapshot.actors or () if actor.name == f"{SUPERVISOR}{name}"), None)
            why = (actor.why if actor else None) or job.message or "Ray gives no reason"
            if why != printed:
                output.print_note(f"job {name} is PENDING: {hide(why)}")
                printed = why
        await asyncio.sleep(PENDING_INTERVAL_S)


def failure_lines(message: str) -> list[str]:
    """Ray's message about a failed job, without the frames of its traceback."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    begins = next((index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line), len(lines))
    inside = max((index for index, line in enumerate(lines) if line.startswith(" ") and index > begins), default=begins - 1)
    return [*lines[:begins], *lines[inside + 1 :]][:MAX_FAILURE_LINES]
