"""Makes a command of each action in the table: the command prints the plan, asks for confirmation, performs it, and prints the result."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import click
import msgspec
from msgspec.structs import replace

from cockpit.actions.action import Action
from cockpit.actions.action_context import UnclearSessionError
from cockpit.actions.audit import brief, outcome_of
from cockpit.actions.executor import ActionExecutor
from cockpit.actions.plan import ActionTarget, Plan, Receipt, count_missed
from cockpit.actions.plan_text import count_targets, plan_lines, receipt_lines
from cockpit.actions.table import ACTIONS, find_action
from cockpit.cli.completion import BY_ROW, complete_hosts, complete_sessions
from cockpit.cli.options import (
    ACTION_EXIT_CODES,
    BAD_USAGE,
    DONE,
    NO_ANSWER,
    NOT_ALL,
    Option,
    cluster_options,
    command,
    consent_options,
    print_error,
    with_config,
    with_options,
)
from cockpit.cli.targets import explain, find_id
from cockpit.config.address import explain_choices
from cockpit.config.document import InputError
from cockpit.config.reach import HostEntry, check_host
from cockpit.config.settings import Config
from cockpit.monitor.monitor import sample_once
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import clean, output

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command: ctrl+c, `kill` or a system that goes down, a closed terminal."""


# Checks of the values of options


def age_in_seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """`90s`, `30m`, `12h`, `1d`; a bare number is seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd]?)", text)
    if found is None:
        raise click.BadParameter(f"expected an age such as 90s, 30m, 12h or 1d, got {text!r}")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def check_seconds(_: click.Context, __: click.Parameter, number: float | None) -> float | None:
    """At most an hour."""
    if number is not None and not 0 <= number <= 3600:
        raise click.BadParameter(f"expected seconds from 0 to 3600, got {number:g}")
    return number


def check_pids(_: click.Context, __: click.Parameter, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Pids of processes that may be ended; init may not."""
    if wrong := [number for number in numbers if number < 2]:
        raise click.BadParameter(f"expected a pid greater than 1, got {wrong[0]}")
    return numbers


def check_hosts(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Valid names of hosts."""
    try:
        return tuple(check_host(HostEntry(name)).name for name in names)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


def require_value(_: click.Context, parameter: click.Parameter, text: Any) -> Any:
    """Refuse an empty value: an unset variable of a shell script must not mean all targets."""
    if text == "" or (isinstance(text, tuple) and "" in text):
        raise click.BadParameter("expected a name, got nothing", param=parameter)
    return text


_KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "switch": {"is_flag": True},
    "seconds": {"type": float, "callback": check_seconds},
    "age": {"callback": age_in_seconds},
    "pid": {"type": int, "callback": check_pids},
    "name": {"callback": require_value},
    "path": {},
}
"""By kind of flag: arguments for `click.option`."""


# The commands


def action_commands() -> list[click.Command]:
    """A command for each action that has one."""
    return [_make_command(find_action(action.id)) for action in ACTIONS if action.command]


def _make_command(action: Action) -> click.Command:
    if action.operand == "hosts":
        operand = click.argument("named", nargs=-1, metavar="[HOST]...", callback=check_hosts, shell_complete=complete_hosts)
    else:
        operand = click.argument("id", metavar="ID", callback=require_value, shell_complete=BY_ROW.get(action.takes))
    options: list[Option[Any]] = []
    for flag in action.flags:
        complete = complete_sessions if flag.field == "session" else None
        words: dict[str, Any] = {"multiple": flag.many, "metavar": flag.metavar, "help": flag.help, "shell_complete": complete}
        options.append(click.option(flag.option, flag.field, **words, **_KINDS[flag.kind]))
    json = click.option("--json", "as_json", is_flag=True, help="Print plan and outcome as JSON, for scripts.")

    @with_options(operand, *options, consent_options, json, cluster_options)
    @with_config
    def run(config: Config, *, dry_run: bool, yes: bool, as_json: bool, **fields: Any) -> int:
        if fields.get("everything") and fields.get("session"):
            raise click.UsageError("--everything and --session exclude each other")
        requested = ActionTarget(hosts=fields.pop("named", ()), **fields)
        return run_until_signal(
            action.id, config, partial(_plan_and_perform, action, requested, config, dry_run=dry_run, yes=yes, as_json=as_json)
        )

    run.__doc__ = f"{action.help}."
    return command(action.id, ACTION_EXIT_CODES)(run)


async def _plan_and_perform(
    action: Action, requested: ActionTarget, config: Config, ending: EndSignal, *, as_json: bool, **how: bool
) -> int:
    monitor = await sample_once(config)
    if meant := [address for address in monitor.open_choices if requested.session == address.origin]:
        monitor = await sample_once(replace(config, address=meant[0].url))
    if monitor.open_choices and action.is_for_followed and not (requested.session or requested.everything):
        return print_failure(explain_choices(monitor.open_choices), NO_ANSWER, as_json=as_json)
    executor = ActionExecutor(monitor)
    try:
        if action.operand == "ray_id":
            requested = replace(requested, id=find_id(action, requested.id or "", monitor.poller.snapshot, config.names_of))
        plan = await executor.plan(action, requested)
        is_session_named = bool(requested.session or requested.sessions)
        return (await ask_and_perform(executor, plan, ending, is_session_named=is_session_named, as_json=as_json, **how))[0]
    except UnclearSessionError as error:
        option = next((flag.option for flag in action.flags if flag.field == "session"), "--address")
        return print_failure(f"{error}: choose one with {option}", NO_ANSWER, as_json=as_json)
    except SourceError as error:
        code = NOT_ALL if isinstance(error, NotMeantError) else NO_ANSWER
        return print_failure(explain(error, monitor.poller.snapshot), code, as_json=as_json)
    finally:
        executor.close()


# Signals


def run_until_signal(name: str, config: Config, work: Callable[[EndSignal], Coroutine[Any, Any, int]], undone: str = "done") -> int:
    """Run a command that changes something, and return its exit code. With `--readonly` nothing runs.

    `undone`: completes the sentence "nothing was …" for a command that a signal ends.
    """
    if config.readonly:
        return print_error(f"{name}: {config.readonly_reason}", NOT_ALL)
    ending = EndSignal()

    async def cancel_on_signal() -> int:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 it runs in one

        def cancel(number: int) -> None:
            ending.number = number
            task.cancel()  # it ends what it began on hosts, and logs that it was aborted

        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, cancel, number)
        return await work(ending)

    try:
        code = asyncio.run(cancel_on_signal())
    except asyncio.CancelledError:
        code = print_error(f"nothing was {undone}", NOT_ALL)
    return code if ending.number is None else 128 + ending.number


class EndSignal:
    """The signal that ended the command; `number` is `None` before one arrives."""

    number: int | None = None

    @contextmanager
    def interrupt_on_signal(self) -> Iterator[None]:
        """Raise `KeyboardInterrupt` on a signal, as Python does on ctrl+c: asyncio would wait until the question is answered."""

        def interrupt(number: int, _: object) -> None:
            self.number = number
            raise KeyboardInterrupt

        before = [(number, signal.signal(number, interrupt)) for number in SIGNALS]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)


# Plan, confirmation and result


def print_failure(text: str, code: int, *, as_json: bool) -> int:
    """Print an error, also as JSON for scripts, and return the code."""
    if as_json:
        failed = {"host": "", "act": "", "target": "", "why": "", "error": text}
        output.print_json(msgspec.json.encode({"plan": [], "done": [], "refused": [], "failed": [failed]}).decode())
    return print_error(text, code)


async def ask_and_perform(
    executor: ActionExecutor, plan: Plan, ending: EndSignal, *, dry_run: bool, yes: bool, as_json: bool, is_session_named: bool = False
) -> tuple[int, Receipt | None]:
    """Print the plan, ask, perform it, and print the result. Return the exit code, and the receipt if something was performed.

    `is_session_named`: an empty plan means that the session that the user named does not exist.
    """
    text = "\n".join(plan_lines(plan, time.time())).rstrip()
    if not as_json:
        output.print_line(text)
    if dry_run or plan.empty:
        if as_json:
            _print_json(plan, Receipt(plan.action, plan.title, refused=plan.refused, unreached=plan.unreached, hosts=plan.hosts))
        code = _planned_exit_code(plan)
        if code != NO_ANSWER and is_session_named and plan.empty and not plan.refused:
            code = BAD_USAGE
        return code, None
    if not yes and not is_confirmed(plan, ending, text if as_json else ""):
        return NOT_ALL, None

    def print_progress(host: str, progress: Progress) -> None:
        if progress.of:
            output.print_progress(f"{host}: {progress.text}")

    try:
        receipt = await executor.perform(plan, print_progress)
    except asyncio.CancelledError:
        # Hosts stop when their connection ends; how far they came is unknown.
        if as_json:
            failed = tuple(replace(target, error="aborted: its state is unknown") for target in plan.targets)
            _print_json(plan, Receipt(plan.action, plan.title, failed=failed, unreached=plan.unreached, hosts=plan.hosts))
        return print_error(f"{plan.title} was aborted: the state of {count_targets(plan.targets)} is unknown", NOT_ALL), None
    if as_json:
        _print_json(plan, receipt)
    else:
        output.print_line("\n" + "\n".join(receipt_lines(receipt)).rstrip())
    return DONE if receipt.well and _planned_exit_code(plan) == DONE else NOT_ALL, receipt


def _planned_exit_code(plan: Plan) -> int:
    """The exit code if everything in the plan succeeds."""
    if plan.hosts and count_missed(plan) == len(plan.hosts):
        return NO_ANSWER
    action = find_action(plan.action)
    missed = any(action.is_requested(target, plan) for target in plan.refused)
    return NOT_ALL if missed or plan.unknown or plan.unreached else DONE


def is_confirmed(plan: Plan, ending: EndSignal, text: str) -> bool:
    """Ask on the terminal; if live work ends with the action, the answer must be a word. `text`: the plan, if it is not printed yet."""
    if not sys.stdin.isatty():
        print_error("nothing was done: there is no terminal for the confirmation; give --yes", NOT_ALL)
        return False
    if text:
        output.print_line(text, err=True)  # stdout is for the JSON alone
    why_not = "nothing was done"
    try:
        with ending.interrupt_on_signal():
            if plan.word is None:
                if output.is_confirmed("Continue?"):
                    return True
            else:
                word = clean(plan.word)
                typed = output.ask(f"{find_action(plan.action).why_word} Type {word} to confirm")
                if typed == word:
                    return True
                why_not += f": {typed} does not match {word}" if typed else ""
    except click.Abort:
        output.print_line(err=True)
    print_error(why_not, NOT_ALL)
    return False


def _print_json(plan: Plan, receipt: Receipt) -> None:
    outcome = outcome_of(receipt)
    refused_before = () if receipt.refused is plan.refused else plan.refused
    whole = {
        "plan": [brief(target, plan.action, plan.titles) for target in plan.targets],
        **outcome,
        "refused": [*(brief(target, plan.action, plan.titles) for target in refused_before), *outcome["refused"]],
        "losses": plan.losses,
        "notes": [*plan.unknown, *plan.notes, *outcome["notes"]],
        "took": receipt.took,
    }
    output.print_json(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
