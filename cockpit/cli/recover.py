"""Runs the runbook of a preset: asks once, then prints step by step (`cockpit recover`)."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from cockpit.actions.audit import brief, outcome_of
from cockpit.actions.plan import Plan
from cockpit.actions.plan_text import plan_lines
from cockpit.actions.recover.runbook import Recovery, begin_recovery
from cockpit.actions.recover.step_state import NAMES, Step, StepError
from cockpit.cli.actions import EndSignal, is_confirmed, print_failure, run_until_signal
from cockpit.cli.completion import complete_presets
from cockpit.cli.options import BAD_USAGE, DONE, NO_ANSWER, NOT_ALL, cluster_options, command, consent_options, print_error, with_config
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.presets import find_preset
from cockpit.presets.folder import is_shared
from cockpit.sources.source import SourceError
from cockpit.text import clean, output


@command("recover", {0: "done", 1: "a step failed, or nothing was done", 3: "no answer, no such preset, or bad usage"})
@click.argument("preset", shell_complete=complete_presets)
@click.option("--from", "begin", type=click.Choice(NAMES), default=NAMES[0], metavar="STEP", help="Start at this step.")
@click.option("--skip", type=click.Choice(NAMES), multiple=True, metavar="STEP", help="Skip this step. Repeat for more.")
@click.option("--no-follow", "follow", flag_value=False, default=True, help="Don't wait until the job shows progress.")
@consent_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan and the outcome of each step as JSON, for scripts.")
@cluster_options
@with_config
def recover(config: Config, preset: str, *, begin: str, skip: tuple[str, ...], follow: bool, **how: Any) -> int:
    """Restart a preset's cluster and launch its job.

    Steps: stop, kill-orphans, clean, hosts, start, wait, check, launch, follow.

    It asks for confirmation once, before the first step, and stops at the first step that fails. --from continues there.
    """

    async def plan_and_run(ending: EndSignal) -> int:
        as_json = how["as_json"]
        try:
            async with begin_recovery(config, find_preset(preset), os.environ, begin=begin, skip=skip, follow=follow) as recovery:
                return await confirm_and_run(recovery, ending, **how)
        except InputError as error:
            return print_failure(str(error), BAD_USAGE, as_json=as_json)
        except (StepError, SourceError) as error:
            code = NOT_ALL if isinstance(error, StepError) else NO_ANSWER
            return print_failure(f"nothing was done: {clean(str(error))}", code, as_json=as_json)

    return run_until_signal("recover", config, plan_and_run)


async def confirm_and_run(recovery: Recovery, ending: EndSignal, *, as_json: bool, dry_run: bool, yes: bool) -> int:
    """Print the plan, ask once, run the steps, and print how they ended. Return the exit code."""
    # The plan.
    plan: Plan = await recovery.plan()
    lines = plan_lines(plan, time.time())
    if plan.empty:
        lines = [clean(line) for line in (f"{plan.title} on {', '.join(plan.hosts)}: no Ray to stop", *plan.notes, "")]
    steps = (f"  {step.name:<13} {'skipped' if step.state == 'skipped' else step.will}" for step in recovery.steps)
    text = "\n".join([*lines, "Steps", *steps])
    if not as_json:
        output.print_line(text)
    if dry_run:
        if as_json:
            _print_json(recovery, plan)
        return NOT_ALL if recovery.obstacles(plan) else DONE
    if not yes and not is_confirmed(plan, ending, text if as_json else ""):
        return NOT_ALL

    # The steps.
    print_step, is_aborted = StepPrinter(), False
    try:
        async for step in recovery.run():
            if not as_json:
                print_step(step)
    except (asyncio.CancelledError, BrokenPipeError):  # BrokenPipeError: the reader has ended, as in `| head`
        is_aborted = True
    if as_json:
        _print_json(recovery, plan)

    # How they ended.
    if is_aborted:
        # Actions end on hosts when their connection ends; a `ray start` that has begun continues.
        aborted = next((step.name for step in recovery.steps if step.state == "running"), NAMES[0])
        left = [*recovery.state_now, *(["a `ray start` that had begun continues on its host"] if aborted == "start" else [])]
        state = "".join(f"\n  {clean(line)}" for line in left)
        return print_error(f"aborted in step {aborted}{state}\n{_continue_with(recovery, aborted)}", NOT_ALL)
    failed: Step | None = recovery.failed
    if failed is None:
        return DONE
    if not as_json:
        for line in recovery.state_now:
            output.print_line(f"  {line}")
    return print_error(f"step {failed.name} failed: {clean(failed.error or '')}\n{_continue_with(recovery, failed.go_on)}", NOT_ALL)


def _continue_with(recovery: Recovery, step: str) -> str:
    """The command that continues with this step."""
    preset, job = recovery.preset, recovery.named_job
    argument = preset.name if is_shared(preset.path) else shlex.quote(str(preset.path))
    return f"  continue with: cockpit recover {clean(argument)} --from {step}{f' --slurm {job}' if job else ''}"


class StepPrinter:
    """Prints the news of a step, and nothing twice."""

    def __init__(self) -> None:
        self._name = ""
        self._hosts: Mapping[str, str] = {}

    def __call__(self, step: Step) -> None:
        """Print a line when it starts and when it ends; the progress of hosts only on a terminal."""
        if step.name != self._name:
            self._name, self._hosts = step.name, {}
            output.print_line(f"\n{step.title} …")
        for host, text in step.hosts.items():
            if self._hosts.get(host) != text:
                output.print_progress(f"  {host}: {text}")
        self._hosts = step.hosts
        if step.state in ("done", "failed"):
            output.print_line(f"{step.title}: {step.state}, {step.took or 0.0:.1f} s")
            for line in step.lines:
                output.print_line(f"  {line}")


def _print_json(recovery: Recovery, plan: Plan) -> None:
    steps = [
        {"name": step.name, "state": step.state, "error": step.error, "lines": step.lines, "hosts": step.hosts, "took": step.took}
        for step in recovery.steps
    ]
    # The targets of all steps by outcome. A step that failed without a target gets a row of its own.
    outcomes = [outcome_of(receipt) for step in recovery.steps for receipt in step.receipts]
    rows: dict[str, list[dict[str, Any]]] = {kind: [row for one in outcomes for row in one[kind]] for kind in ("done", "refused", "failed")}
    if not (rows["failed"] or rows["refused"]):
        failed = [step for step in recovery.steps if step.state == "failed"]
        rows["failed"] = [{"host": "", "act": step.name, "target": "", "why": "", "error": step.error} for step in failed]
    whole = {
        "preset": recovery.preset.name,
        "plan": [brief(target, plan.action, plan.titles) for target in plan.targets],
        "losses": plan.losses,
        "notes": plan.notes,
        **rows,
        "steps": steps,
        "left": recovery.state_now,
    }
    output.print_json(recovery.hide(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()))
