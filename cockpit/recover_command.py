"""`cockpit recover`: the runbook of a preset, asked for once and told step by step."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from cockpit.actions.audit import brief, outcome_of
from cockpit.actions.plan import Plan
from cockpit.actions.words import plan_lines
from cockpit.commands import BAD_USAGE, DONE, NOT_ALL, UNREACHABLE, ActCommand, Ending, confirmed, fail, refuse
from cockpit.config import Config
from cockpit.document import InputError
from cockpit.presets import Preset, find_preset
from cockpit.presets.folder import is_shared
from cockpit.recovery.step import NAMES, Step, StepError
from cockpit.sources.source import SourceError
from cockpit.text import clean

if TYPE_CHECKING:
    from cockpit.recovery.recovery import Recovery

HELP = f"""Put the cluster of a preset back on its feet, and launch its job: {", ".join(NAMES)}.

It asks once, shows each step before and while it is done, and stops at the first that fails; --from goes on there.

Exit: 0 done, 1 a step has failed or nothing was done, 2 bad usage, 3 nothing reachable."""


def recover_command(options: Callable[[Any], Any], configured: Callable[[Any], Any]) -> click.Command:
    """`options` are the flags of everything that looks at a cluster."""

    def run(config: Config, *, preset: str, begin: str, skip: tuple[str, ...], as_json: bool, **how: Any) -> None:
        sys.exit(_run(config, preset, begin, skip, as_json=as_json, **how))

    command: Any = configured(run)
    for add in reversed((
        click.argument("preset"),
        click.option("--from", "begin", type=click.Choice(NAMES), default=NAMES[0], metavar="STEP", help="Go on at this step."),
        click.option("--skip", type=click.Choice(NAMES), multiple=True, metavar="STEP", help="Leave this step out."),
        click.option("--no-follow", "follow", flag_value=False, default=True, help="Don't wait for the first sign of progress."),
        click.option("--dry-run", is_flag=True, help="Print the plan, do nothing."),
        click.option("--yes", is_flag=True, help="Don't ask."),
        click.option("--json", "as_json", is_flag=True, help="Plan and outcome of each step, for scripts."),
        options,
    )):  # fmt: skip
        command = add(command)
    return click.command("recover", cls=ActCommand, help=HELP)(command)


def _run(config: Config, name: str, begin: str, skip: tuple[str, ...], *, as_json: bool, follow: bool, **how: bool) -> int:
    if config.readonly:
        return refuse("recover: cockpit is read-only here", NOT_ALL)
    ending = Ending()
    try:
        about = {"begin": begin, "skip": skip, "follow": follow}
        code = asyncio.run(_recovered(config, find_preset(name), about, ending, as_json=as_json, **how))
    except InputError as error:
        return fail(str(error), BAD_USAGE, as_json=as_json)
    except asyncio.CancelledError:
        code = refuse("nothing was done", NOT_ALL)
    return code if ending.number is None else 128 + ending.number


async def _recovered(config: Config, preset: Preset, about: dict[str, Any], ending: Ending, *, as_json: bool, **how: bool) -> int:
    from cockpit.recovery.begin import recovering

    ending.cancels(asyncio.current_task())
    try:
        async with recovering(config, preset, os.environ, **about) as recovery:
            return await _asked(recovery, ending, as_json=as_json, **how)
    except StepError as error:
        return fail(f"nothing was done: {clean(str(error))}", NOT_ALL, as_json=as_json)
    except SourceError as error:
        return fail(f"nothing was done: {clean(str(error))}", UNREACHABLE, as_json=as_json)


async def _asked(recovery: Recovery, ending: Ending, *, as_json: bool, dry_run: bool, yes: bool) -> int:
    plan: Plan = await recovery.plan()
    text = "\n".join(_question(recovery, plan))
    if not as_json:
        click.echo(text)
    if dry_run:
        if as_json:
            _print_json(recovery, plan)
        return DONE
    if not yes and not confirmed(plan, ending, text if as_json else ""):
        return NOT_ALL
    tell = Teller()
    try:
        async for step in recovery.run():
            if not as_json:
                tell(step)
    except (asyncio.CancelledError, BrokenPipeError):  # the latter: nobody reads on, as behind `| head`
        if as_json:
            _print_json(recovery, plan)
        return _broken_off(recovery)
    if as_json:
        _print_json(recovery, plan)
    return _ended(recovery, as_json=as_json)


def _broken_off(recovery: Recovery) -> int:
    """Acts end on hosts when nobody listens any more; a `ray start` that has begun goes on alone."""
    under_way = next((step.name for step in recovery.steps if step.state == "running"), NAMES[0])
    told = [*recovery.left, *(["a `ray start` that had begun goes on alone"] if under_way == "start" else [])]
    left = "".join(f"\n  {clean(line)}" for line in told)
    return refuse(f"broken off in {under_way}{left}\n{_go_on(recovery.preset, under_way)}", NOT_ALL)


def _question(recovery: Recovery, plan: Plan) -> list[str]:
    short = (f"{plan.title}: on {', '.join(plan.hosts)}; no Ray is to be stopped", *plan.notes, "")
    lines = plan_lines(plan, time.time()) if not plan.empty else [clean(line) for line in short]
    return [*lines, "Steps", *(f"  {step.name:<13} {_will(step)}" for step in recovery.steps)]


def _will(step: Step) -> str:
    return "left out" if step.state == "skipped" else step.will


def _ended(recovery: Recovery, *, as_json: bool) -> int:
    failed: Step | None = recovery.failed
    if failed is None:
        return DONE
    if not as_json:
        for line in recovery.left:
            click.echo(clean(f"  {line}"))
    return refuse(f"stopped at {failed.name}: {clean(failed.error or '')}\n{_go_on(recovery.preset, failed.go_on)}", NOT_ALL)


def _go_on(preset: Preset, step: str) -> str:
    called = preset.name if is_shared(preset.path) else shlex.quote(str(preset.path))
    return f"  go on with: cockpit recover {clean(called)} --from {step}"


class Teller:
    """Says what is new of steps: of what has not changed nothing is said again."""

    def __init__(self) -> None:
        self._begun = ""
        self._hosts: Mapping[str, str] = {}

    def __call__(self, step: Step) -> None:
        """A line when it begins and when it ends; how far hosts are, for whoever sits there."""
        if step.name != self._begun:
            self._begun, self._hosts = step.name, {}
            click.echo(f"\n{step.title} …")
        if sys.stderr.isatty():
            for host, text in step.hosts.items():
                if self._hosts.get(host) != text:
                    click.echo(clean(f"  {host}: {text}"), err=True)
        self._hosts = step.hosts
        if step.state in ("done", "failed"):
            click.echo(f"{step.title}: {step.state}, {step.took or 0.0:.1f} s")
            for line in step.lines:
                click.echo(clean(f"  {line}"))
        sys.stdout.flush()


def _print_json(recovery: Recovery, plan: Plan) -> None:
    steps = [
        {"name": step.name, "state": step.state, "error": step.error, "lines": step.lines, "hosts": step.hosts, "took": step.took}
        for step in recovery.steps
    ]
    told = {"plan": [brief(target, plan.act) for target in plan.targets], "losses": plan.losses, "notes": plan.notes}
    whole = {"preset": recovery.preset.name, **told, **_outcome(recovery.steps), "steps": steps, "left": recovery.left}
    click.echo(recovery.hide(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()))


def _outcome(steps: Sequence[Step]) -> dict[str, list[dict[str, Any]]]:
    """What became of each target of every step, and of a step that failed for another reason that one."""
    outcomes = [outcome_of(receipt) for step in steps for receipt in step.receipts]
    told: dict[str, list[dict[str, Any]]] = {kind: [row for one in outcomes for row in one[kind]] for kind in ("done", "refused", "failed")}
    failed = [step for step in steps if step.state == "failed" and not (told["failed"] or told["refused"])]
    told["failed"] += [{"host": "", "act": step.name, "target": "", "why": "", "error": step.error} for step in failed]
    return told
