"""The commands of acts, made from the table of acts: the same plans as the screen's, as text or JSON."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from cockpit.actions.audit import Audit, audit_path, brief, outcome_of
from cockpit.actions.plan import Plan, Receipt, Target, missed
from cockpit.actions.table import ACTS, Act, Aim, Flag
from cockpit.actions.words import counted, plan_lines, receipt_lines
from cockpit.config import Config, several
from cockpit.document import InputError
from cockpit.reach import HostEntry, check_host
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import clean

if TYPE_CHECKING:
    from cockpit.door import Door
    from cockpit.sources.errand import Progress

DONE, NOT_ALL, BAD_USAGE, UNREACHABLE = 0, 1, 2, 3
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks us to end: ctrl+c, an operator or a system that goes down, a terminal that is closed."""
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def age_in_seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """`90s`, `30m`, `12h`, `1d`; a bare number is seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd]?)", text)
    if found is None:
        raise click.BadParameter(f"expected an age such as 90s, 30m, 12h or 1d, got {text!r}")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def host_names(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that can be a host's."""
    try:
        return tuple(check_host(HostEntry(name)).name for name in names)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


def some(_: click.Context, parameter: click.Parameter, text: Any) -> Any:
    """An unset variable of a shell script must not pass for "all of them"."""
    if text == "" or (isinstance(text, tuple) and "" in text):
        raise click.BadParameter("expected a name, got nothing", param=parameter)
    return text


def hex_id(_: click.Context, __: click.Parameter, text: str) -> str:
    """An id as Ray writes it."""
    if not re.fullmatch(r"[0-9a-f]{32}(?:[0-9a-f]{4})?", text):
        raise click.BadParameter(f"expected an id as `ray list` and `cockpit status --json` print it, got {text!r}")
    return text


_FLAGS: Final[Mapping[Flag, Option]] = {
    "pid": click.option(
        "--pid", "pids", type=click.IntRange(2), multiple=True, metavar="P", help="Only this process; another user's, as root."
    ),
    "force": click.option("--force", is_flag=True, help="SIGKILL at once, no SIGTERM before."),
    "grace": click.option("--grace", type=click.FloatRange(0, 3600), metavar="S", help="Seconds between SIGTERM and SIGKILL."),
    "session": click.option("--session", metavar="NAME", callback=some, help="Which Ray session, where several live."),
    "everything": click.option("--everything", is_flag=True, help="Every Ray on the hosts, by Ray's own `ray stop`."),
    "sessions": click.option("--session", "sessions", multiple=True, metavar="NAME", callback=some, help="Only this dead session."),
    "older_than": click.option("--older-than", callback=age_in_seconds, metavar="1d", help="Only sessions that old."),
    "dear": click.option(
        "--dear", multiple=True, metavar="PATH", help="Remove this too, though it looks like a checkpoint or a core dump."
    ),
}


class ActCommand(click.Command):
    """Bad usage of an act ends with 2."""

    bad_usage = BAD_USAGE


def act_commands(options: Callable[[Any], Any], configured: Callable[[Any], Any]) -> list[click.Command]:
    """One for each act that has one; `options` are the flags of everything that looks at a cluster."""
    return [_command(act, options, configured) for act in ACTS if act.command]


def _command(act: Act, options: Callable[[Any], Any], configured: Callable[[Any], Any]) -> click.Command:
    def run(config: Config, *, dry_run: bool, yes: bool, as_json: bool, **aimed: Any) -> None:
        if aimed.get("everything") and aimed.get("session"):
            raise click.UsageError("--everything and --session exclude each other")
        sys.exit(_run(act, Aim(hosts=aimed.pop("named", ()), **aimed), config, dry_run=dry_run, yes=yes, as_json=as_json))

    command: Any = configured(run)
    for add in reversed([*_arguments(act), *(_FLAGS[flag] for flag in act.flags), *_ANSWERS, options]):
        command = add(command)
    return click.command(
        act.id, cls=ActCommand, help=f"{act.help}.\n\nExit: 0 done or nothing to do, 1 not all of it, 2 bad usage, 3 nothing reachable."
    )(command)


_ANSWERS: Final[tuple[Option, ...]] = (
    click.option("--dry-run", is_flag=True, help="Print the plan, do nothing."),
    click.option("--yes", is_flag=True, help="Don't ask."),
    click.option("--json", "as_json", is_flag=True, help="Plan and outcome, for scripts."),
)


def _arguments(act: Act) -> list[Option]:
    if act.via == "hosts":
        return [click.argument("named", nargs=-1, metavar="[HOST]...", callback=host_names)]
    return [click.argument("id", metavar="ID", callback=hex_id if act.via == "ray" else None)]


def _run(act: Act, aim: Aim, config: Config, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    if config.readonly:
        return refuse(f"{act.id}: cockpit is read-only here", NOT_ALL)
    ending = Ending()
    try:
        code = asyncio.run(_acted(act, aim, config, ending, dry_run=dry_run, yes=yes, as_json=as_json))
    except asyncio.CancelledError:
        code = refuse("nothing was done", NOT_ALL)
    return code if ending.number is None else 128 + ending.number


class Ending:
    """The signal that has asked us to end, if one has."""

    number: int | None = None

    def cancels(self, task: asyncio.Task[Any] | None) -> None:
        """What is under way on hosts ends with us, and the log says that it was broken off."""

        def cancel(number: int) -> None:
            self.number = number
            if task is not None:
                task.cancel()

        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, cancel, number)

    @contextmanager
    def interrupts(self) -> Iterator[None]:
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


async def _acted(act: Act, aim: Aim, config: Config, ending: Ending, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    from cockpit.door import Door
    from cockpit.lookout import look_once

    ending.cancels(asyncio.current_task())
    lookout = await look_once(config)
    if meant := [address for address in lookout.undecided if aim.session == address.origin]:
        lookout = await look_once(msgspec.structs.replace(config, address=meant[0].url))
    if lookout.undecided and _needs_ray(act, aim):
        return fail(several(lookout.undecided), UNREACHABLE, as_json=as_json)
    door = Door(lookout, Audit(audit_path(), time.time))
    try:
        plan = await door.plan(act, aim)
        named = bool(aim.session or aim.sessions)
        return (await agreed(door, plan, ending, named=named, dry_run=dry_run, yes=yes, as_json=as_json))[0]
    except NotMeantError as error:
        return fail(str(error), NOT_ALL, as_json=as_json)
    except SourceError as error:
        return fail(str(error), UNREACHABLE, as_json=as_json)
    finally:
        door.close()


def fail(text: str, code: int, *, as_json: bool) -> int:
    """Also a script that reads JSON gets some."""
    if as_json:
        failed = {"host": "", "act": "", "target": "", "why": "", "error": text}
        click.echo(msgspec.json.encode({"plan": [], "done": [], "refused": [], "failed": [failed]}).decode())
    return refuse(text, code)


def _needs_ray(act: Act, aim: Aim) -> bool:
    """Left-over things can be found without knowing which cluster is meant."""
    return act.via != "hosts" or (act.verb == "stop" and not (aim.session or aim.everything))


async def agreed(
    door: Door, plan: Plan, ending: Ending, *, dry_run: bool, yes: bool, as_json: bool, named: bool = False
) -> tuple[int, Receipt | None]:
    """The exit code, and what was done if anything was. `named`: a session was named, and one that isn't there is no success."""
    unreachable = bool(plan.hosts) and missed(plan) == len(plan.hosts)
    text = "\n".join(plan_lines(plan, time.time())).rstrip()
    if not as_json:
        click.echo(text)
    if dry_run or plan.empty:
        if as_json:
            _print_json(plan, Receipt(plan.act, plan.title, refused=plan.refused, unreached=plan.unreached, hosts=plan.hosts))
        well = dry_run or not (_asked_for(plan) or plan.unreached or named)
        return UNREACHABLE if unreachable else DONE if well else NOT_ALL, None
    if not yes and not confirmed(plan, ending, text if as_json else ""):
        return NOT_ALL, None
    try:
        receipt = await door.perform(plan, _say)
    except asyncio.CancelledError:
        return _broken_off(plan, as_json=as_json), None
    if as_json:
        _print_json(plan, receipt)
    else:
        click.echo("\n" + "\n".join(receipt_lines(receipt)).rstrip())
    return DONE if receipt.well and not _asked_for(plan) else NOT_ALL, receipt


def _broken_off(plan: Plan, *, as_json: bool) -> int:
    """Hosts end what they have begun as soon as nobody listens: how far they had come, nobody knows."""
    unknown = "broken off: what became of it is not known"
    if as_json:
        failed = tuple(msgspec.structs.replace(target, error=unknown) for target in plan.targets)
        _print_json(plan, Receipt(plan.act, plan.title, failed=failed, unreached=plan.unreached, hosts=plan.hosts))
    return refuse(f"{plan.title} was broken off: what became of {counted(plan.targets)} is not known", NOT_ALL)


def _asked_for(plan: Plan) -> list[Target]:
    """What was refused, but for live sessions that nobody has named: that they stay is what `clean` is about."""
    named = any(request.get("sessions") for request in plan.requests.values())
    return [target for target in plan.refused if named or not (target.what == "session" and target.live)]


def _say(host: str, progress: Progress) -> None:
    """How far a host is, for whoever sits there."""
    if sys.stderr.isatty() and progress.of:
        click.echo(clean(f"{host}: {progress.text}"), err=True)


def confirmed(plan: Plan, ending: Ending, text: str) -> bool:
    """Whether somebody who sits there agrees; by the word, when live work ends with it. `text`: what was not printed of the plan yet."""
    if not sys.stdin.isatty():
        refuse("nothing was done: there is no terminal to ask on, and no --yes", NOT_ALL)
        return False
    if text:
        click.echo(text, err=True)  # stdout is for whoever reads JSON
    try:
        with ending.interrupts():
            agreed = _answered(plan)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        refuse("nothing was done", NOT_ALL)
    return agreed


def _answered(plan: Plan) -> bool:
    if plan.word is None:
        return click.confirm("\nDo it?", err=True)
    word = clean(plan.word)
    why = "Live work ends with it." if plan.act != "launch" else "It is launched already."
    return str(click.prompt(f"\n{why} Type {word} to do it", default="", show_default=False, err=True)).strip() == word


def _print_json(plan: Plan, receipt: Receipt) -> None:
    outcome = outcome_of(receipt)
    planned = [brief(target, plan.act) for target in plan.targets]
    refused = (
        outcome["refused"] if receipt.refused is plan.refused else [*(brief(one, plan.act) for one in plan.refused), *outcome["refused"]]
    )
    told = {"losses": list(plan.losses), "notes": [*plan.notes, *outcome["notes"]]}
    whole = {
        "plan": planned,
        "done": outcome["done"],
        "refused": refused,
        "failed": outcome["failed"],
        "freed": outcome["freed"],
        **told,
        "took": receipt.took,
    }
    click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())


def refuse(text: str, code: int) -> int:
    """The sentence on stderr, and the code."""
    click.echo(f"cockpit: {clean(text) if chr(10) not in text else text}", err=True)
    return code


QUIET: Final = 1.5
"""Seconds of silence after which a log that is not followed has been printed up to now; three of Ray's intervals."""
PATIENCE: Final = 10.0


def print_log(config: Config, job: str, *, follow: bool, lines: int) -> int:
    """A job's log to stdout: raw into a pipe, and able to do nothing to a terminal."""
    try:
        return asyncio.run(_log(config, job, follow=follow, lines=lines))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return DONE


async def _log(config: Config, job: str, *, follow: bool, lines: int) -> int:
    from cockpit.lookout import look_once

    lookout = await look_once(config)
    batches = lookout.follow_log(job, lines).__aiter__()
    patience = None if follow else PATIENCE
    try:
        while (batch := await _next(batches, patience)) is not None:
            for line in batch:
                click.echo(clean(line) if sys.stdout.isatty() else line)
            patience = None if follow else QUIET
    except SourceError as error:
        return refuse(str(error), UNREACHABLE)
    return DONE


async def _next(batches: AsyncIterator[Sequence[str]], patience: float | None) -> Sequence[str] | None:
    """`None`: it is over, or nothing came for so long."""
    task = asyncio.ensure_future(anext(batches, None))
    await asyncio.wait([task], timeout=patience)
    if task.done():
        return task.result()
    task.cancel()
    return None
