"""The commands of acts, made from the table of acts: the same plans as the screen's, as text or JSON."""

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

from cockpit import output
from cockpit.acts.act import Act, Flag
from cockpit.acts.audit import brief, outcome_of
from cockpit.acts.executor import ActionExecutor
from cockpit.acts.plan import Aim, Plan, Receipt, count_missed
from cockpit.acts.table import ACTS, find_act
from cockpit.acts.text import count_targets, plan_lines, receipt_lines
from cockpit.acts.world import UnclearSessionError
from cockpit.cli.completion import BY_ROW, complete_hosts, complete_sessions
from cockpit.cli.options import (
    ACT_EXIT_CODES,
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
from cockpit.monitor.monitor import look_once
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import clean

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks us to end: ctrl+c, an operator or a system that goes down, a terminal that is closed."""


def age_in_seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """`90s`, `30m`, `12h`, `1d`; a bare number is seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd]?)", text)
    if found is None:
        raise click.BadParameter(f"expected an age such as 90s, 30m, 12h or 1d, got {text!r}")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def seconds(_: click.Context, __: click.Parameter, number: float | None) -> float | None:
    """Up to an hour."""
    if number is not None and not 0 <= number <= 3600:
        raise click.BadParameter(f"expected seconds from 0 to 3600, got {number:g}")
    return number


def pids(_: click.Context, __: click.Parameter, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Of processes that may be ended: never of init."""
    if wrong := [number for number in numbers if number < 2]:
        raise click.BadParameter(f"expected a pid greater than 1, got {wrong[0]}")
    return numbers


def host_names(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that can be a host's."""
    try:
        return tuple(check_host(HostEntry(name)).name for name in names)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


def require_value(_: click.Context, parameter: click.Parameter, text: Any) -> Any:
    """An unset variable of a shell script must not pass for "all of them"."""
    if text == "" or (isinstance(text, tuple) and "" in text):
        raise click.BadParameter("expected a name, got nothing", param=parameter)
    return text


_KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "switch": {"is_flag": True},
    "seconds": {"type": float, "callback": seconds},
    "age": {"callback": age_in_seconds},
    "pid": {"type": int, "callback": pids},
    "name": {"callback": require_value},
    "path": {},
}


def _operand(act: Act) -> Option[Any]:
    if act.operand == "hosts":
        return click.argument("named", nargs=-1, metavar="[HOST]...", callback=host_names, shell_complete=complete_hosts)
    return click.argument("id", metavar="ID", callback=require_value, shell_complete=BY_ROW.get(act.takes))


def _option(flag: Flag) -> Option[Any]:
    complete = complete_sessions if flag.field == "session" else None
    words: dict[str, Any] = {"multiple": flag.many, "metavar": flag.metavar, "help": flag.help, "shell_complete": complete}
    return click.option(flag.option, flag.field, **words, **_KINDS[flag.kind])


def act_commands() -> list[click.Command]:
    """One for each act that has one."""
    return [_command(find_act(act.id)) for act in ACTS if act.command]


def _command(act: Act) -> click.Command:
    json = click.option("--json", "as_json", is_flag=True, help="Print plan and outcome as JSON, for scripts.")

    @with_options(_operand(act), *map(_option, act.flags), consent_options, json, cluster_options)
    @with_config
    def run(config: Config, *, dry_run: bool, yes: bool, as_json: bool, **aimed: Any) -> None:
        if aimed.get("everything") and aimed.get("session"):
            raise click.UsageError("--everything and --session exclude each other")
        aim = Aim(hosts=aimed.pop("named", ()), **aimed)
        sys.exit(run_until_signal(act.id, config, partial(_plan_and_act, act, aim, config, dry_run=dry_run, yes=yes, as_json=as_json)))

    run.__doc__ = f"{act.help}."
    return command(act.id, ACT_EXIT_CODES)(run)


def run_until_signal(name: str, config: Config, work: Callable[[EndSignal], Coroutine[Any, Any, int]], undone: str = "done") -> int:
    """The exit code of a command that acts; none does where cockpit is read-only."""
    if config.readonly:
        return print_error(f"{name}: {config.readonly_reason}", NOT_ALL)
    ending = EndSignal()

    async def work_on() -> int:
        ending.cancel_on_signal(asyncio.current_task())
        return await work(ending)

    try:
        code = asyncio.run(work_on())
    except asyncio.CancelledError:
        code = print_error(f"nothing was {undone}", NOT_ALL)
    return code if ending.number is None else 128 + ending.number


class EndSignal:
    """The signal that has asked us to end, if one has."""

    number: int | None = None

    def cancel_on_signal(self, task: asyncio.Task[Any] | None) -> None:
        """What is under way on hosts ends with us, and the log says that it was broken off."""

        def cancel(number: int) -> None:
            self.number = number
            if task is not None:
                task.cancel()

        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, cancel, number)

    @contextmanager
    def interrupt_on_signal(self) -> Iterator[None]:
        """At once, as Python's own ctrl+c: asyncio would wait for the answer to the question."""
        before = [(number, signal.signal(number, self._interrupt)) for number in SIGNALS]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    def _interrupt(self, number: int, _: object) -> None:
        self.number = number
        raise KeyboardInterrupt


async def _plan_and_act(act: Act, aim: Aim, config: Config, ending: EndSignal, *, as_json: bool, **how: bool) -> int:
    monitor = await look_once(config)
    if meant := [address for address in monitor.open_choices if aim.session == address.origin]:
        monitor = await look_once(msgspec.structs.replace(config, address=meant[0].url))
    if monitor.open_choices and act.is_for_followed and not (aim.session or aim.everything):
        return print_failure(explain_choices(monitor.open_choices), NO_ANSWER, as_json=as_json)
    executor = ActionExecutor(monitor)
    try:
        if act.operand == "ray_id":
            aim = replace(aim, id=find_id(act, aim.id or "", monitor.poller.snapshot, config.names_of))
        plan = await executor.plan(act, aim)
        named = bool(aim.session or aim.sessions)
        return (await ask_and_act(executor, plan, ending, named=named, as_json=as_json, **how))[0]
    except UnclearSessionError as error:
        option = next((flag.option for flag in act.flags if flag.field == "session"), "--address")
        return print_failure(f"{error}: choose one with {option}", NO_ANSWER, as_json=as_json)
    except SourceError as error:
        code = NOT_ALL if isinstance(error, NotMeantError) else NO_ANSWER
        return print_failure(explain(error, monitor.poller.snapshot), code, as_json=as_json)
    finally:
        executor.close()


def print_failure(text: str, code: int, *, as_json: bool) -> int:
    """Also a script that reads JSON gets some."""
    if as_json:
        failed = {"host": "", "act": "", "target": "", "why": "", "error": text}
        output.say_json(msgspec.json.encode({"plan": [], "done": [], "refused": [], "failed": [failed]}).decode())
    return print_error(text, code)


async def ask_and_act(
    executor: ActionExecutor, plan: Plan, ending: EndSignal, *, dry_run: bool, yes: bool, as_json: bool, named: bool = False
) -> tuple[int, Receipt | None]:
    """The exit code, and what was done if anything was. `named`: a session was named, which may not be there."""
    text = "\n".join(plan_lines(plan, time.time())).rstrip()
    if not as_json:
        output.say(text)
    if dry_run or plan.empty:
        if as_json:
            _print_json(plan, Receipt(plan.act, plan.title, refused=plan.refused, unreached=plan.unreached, hosts=plan.hosts))
        return _code_of_plan(plan, named=named), None
    if not yes and not is_confirmed(plan, ending, text if as_json else ""):
        return NOT_ALL, None
    try:
        receipt = await executor.perform(plan, _say)
    except asyncio.CancelledError:
        return _broken_off(plan, as_json=as_json), None
    if as_json:
        _print_json(plan, receipt)
    else:
        output.say("\n" + "\n".join(receipt_lines(receipt)).rstrip())
    return DONE if receipt.well and _code_of_plan(plan) == DONE else NOT_ALL, receipt


def _code_of_plan(plan: Plan, *, named: bool = False) -> int:
    """How it ends where all goes well that is planned."""
    if plan.hosts and count_missed(plan) == len(plan.hosts):
        return NO_ANSWER
    if named and plan.empty and not plan.refused:
        return BAD_USAGE
    act = find_act(plan.act)
    missed = any(act.is_asked_for(target, plan) for target in plan.refused)
    return NOT_ALL if missed or plan.unknown or plan.unreached else DONE


def _broken_off(plan: Plan, *, as_json: bool) -> int:
    """Hosts end what they have begun as soon as nobody listens: how far they had come, nobody knows."""
    unknown = "aborted: its state is unknown"
    if as_json:
        failed = tuple(msgspec.structs.replace(target, error=unknown) for target in plan.targets)
        _print_json(plan, Receipt(plan.act, plan.title, failed=failed, unreached=plan.unreached, hosts=plan.hosts))
    return print_error(f"{plan.title} was aborted: the state of {count_targets(plan.targets)} is unknown", NOT_ALL)


def _say(host: str, progress: Progress) -> None:
    """How far a host is, for whoever sits there."""
    if progress.of:
        output.say_progress(f"{host}: {progress.text}")


def is_confirmed(plan: Plan, ending: EndSignal, text: str) -> bool:
    """Whether somebody who sits there agrees; by the word, when live work ends with it. `text`: what was not printed of the plan yet."""
    if not sys.stdin.isatty():
        print_error("nothing was done: there is no terminal for the confirmation; give --yes", NOT_ALL)
        return False
    if text:
        output.say(text, err=True)  # stdout is for whoever reads JSON
    try:
        with ending.interrupt_on_signal():
            why_not = _why_not_confirmed(plan)
    except click.Abort:
        output.say(err=True)
        why_not = "nothing was done"
    if why_not is not None:
        print_error(why_not, NOT_ALL)
    return why_not is None


def _why_not_confirmed(plan: Plan) -> str | None:
    """Asks; a sentence where the answer was another one."""
    if plan.word is None:
        return None if output.is_confirmed("Continue?") else "nothing was done"
    word = clean(plan.word)
    typed = output.ask(f"{find_act(plan.act).why_word} Type {word} to confirm")
    if typed == word:
        return None
    return f"nothing was done: {typed} does not match {word}" if typed else "nothing was done"


def _print_json(plan: Plan, receipt: Receipt) -> None:
    outcome = outcome_of(receipt)
    before = () if receipt.refused is plan.refused else plan.refused
    whole = {
        "plan": [brief(target, plan.act, plan.titles) for target in plan.targets],
        **outcome,
        "refused": [*(brief(target, plan.act, plan.titles) for target in before), *outcome["refused"]],
        "losses": plan.losses,
        "notes": [*plan.unknown, *plan.notes, *outcome["notes"]],
        "took": receipt.took,
    }
    output.say_json(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
