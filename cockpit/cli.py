"""Flags become a config, a config becomes the screen or one command."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from cockpit import __version__, look_commands
from cockpit.config import Config, config_path, config_text, init, load, schema
from cockpit.document import InputError
from cockpit.look_commands import BAD_USAGE
from cockpit.sources.spawn import spawn_local

if TYPE_CHECKING:
    from cockpit.door import Door
    from cockpit.lookout import Lookout
    from cockpit.ui.app import Cockpit

Command = TypeVar("Command", bound=Callable[..., Any])

# What is imported late is what not every command needs, and what can wait until the first probe has been started: Textual costs a third of
# a second, httpx a tenth, asyncio half of that.


def common(command: Command) -> Command:
    """The flags of everything that looks at a cluster."""
    options = (
        click.option("--address", metavar="URL", help="Ray's dashboard, such as http://head:8265."),
        click.option("--hosts", metavar="FILE|a,b,c", help="Hosts beyond those that Ray tells of."),
        click.option("--interval", metavar="S", help="Seconds between two looks at this host (default 2)."),
        click.option("--readonly", is_flag=True, default=None, help="Show everything, change nothing."),
        click.option("--theme", metavar="NAME", help="Colours."),
        click.option("--ascii", "ascii_", is_flag=True, default=None, help="Draw with ASCII characters alone."),
        click.option("--quiet", is_flag=True, default=None, help="No bell and no notification when something critical begins."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def configured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command its config; a mistake in it is one sentence."""

    @wraps(command)
    def run(**flags: Any) -> Any:
        named = {
            name.rstrip("_"): flags.pop(name, None) for name in ("address", "hosts", "interval", "readonly", "theme", "ascii_", "quiet")
        }
        parent = click.get_current_context().parent
        given = {name: value if value is not None else (parent.params.get(name) if parent else None) for name, value in named.items()}
        if given["ascii"] is None and parent:
            given["ascii"] = parent.params.get("ascii_")
        try:
            config = load(given)
        except InputError as error:
            _refuse(str(error))
        return command(config, **flags)

    return run


def _refuse(text: str) -> None:
    click.echo(f"cockpit: {text}", err=True)
    sys.exit(_bad_usage(click.get_current_context(silent=True)))


def _bad_usage(context: click.Context | None) -> int:
    return getattr(context.command, "bad_usage", BAD_USAGE) if context else BAD_USAGE


class Group(click.Group):
    """Bad usage ends with 3: 2 already means that the cluster is in a critical state."""

    _whole = False

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Commands of acts and of presets are made when one of them is wanted: the screen and a look don't wait for their imports."""
        if name not in self.commands:
            self._make_others()
        return super().get_command(context, name)

    def list_commands(self, context: click.Context) -> list[str]:
        """All, in the order of the alphabet."""
        self._make_others()
        return super().list_commands(context)

    def _make_others(self) -> None:
        if not self._whole:
            self._whole = True
            for command in _acting_commands():
                self.add_command(command)

    def main(self, *args: Any, **more: Any) -> Any:
        """As click's own, with our exit code."""
        try:
            return super().main(*args, **{**more, "standalone_mode": False})
        except click.UsageError as error:
            error.show()
            sys.exit(_bad_usage(error.ctx))
        except click.Abort:
            sys.exit(130)
        except OSError as error:  # a full disk below what we print, a terminal that is gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _refuse(f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}")


@click.group(cls=Group, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@common
@click.version_option(__version__, prog_name="cockpit")
@click.pass_context
def main(context: click.Context, /, **_: Any) -> None:
    """See what goes on in a Ray cluster of GPUs, and why it waits.

    Without a command: the screen.
    """
    if context.invoked_subcommand is None:
        context.invoke(screen)


@main.command(hidden=True)
@configured
def screen(config: Config) -> None:
    """The screen."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()) or os.environ.get("TERM") == "dumb":
        click.echo("cockpit: no terminal here, so this is `cockpit status`\n", err=True)
        sys.exit(look_commands.status(config, as_json=False))
    code = show(config, ends=True)
    # A thread in a resolver or a driver may never come back; nobody waits for it.
    sys.stdout.flush()
    os._exit(code)


def show(config: Config, *, ends: bool = False) -> int:
    """Run the screen until it is quit; its exit code. The probe starts first: it works while Textual is still being imported.

    `ends`: the process ends right after it.
    """
    early = spawn_local(config.interval)
    gc.disable()  # modules that are being imported are no garbage: to look for some took a tenth of the start
    from cockpit.lookout import Lookout
    from cockpit.ui.app import Cockpit

    _favour_keys()
    app = Cockpit(
        config,
        lambda publish: Lookout(config, publish, early=early),
        door=None if config.readonly else _door,
        runbook=partial(_recovering, config),
    )
    app.process_ends = ends
    signal.signal(signal.SIGHUP, partial(_hang_up, app))
    try:
        app.run()
    finally:
        app.lookout.close()
    return app.return_code or 0


def _door(lookout: Lookout) -> Door:
    """The way to change something: the one place at which `--readonly` leaves it out."""
    from cockpit.actions.audit import Audit, audit_path
    from cockpit.door import Door

    return Door(lookout, Audit(audit_path(), time.time))


def _recovering(config: Config, preset: Any, **how: Any) -> Any:
    """A runbook, made from what is imported only then."""
    from cockpit.recovery.begin import recovering

    return recovering(config, preset, os.environ, **how)


def _favour_keys() -> None:
    """A whole collection took 40 ms at 1,000 nodes, and a thread that builds values kept the loop waiting 5 ms at a time."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(2_000, 25, 250)
    sys.setswitchinterval(0.001)


def _hang_up(app: Cockpit, *_: object) -> None:
    """The terminal is gone: nothing is left to draw on."""
    app.lookout.close()
    os._exit(129)


@main.command()
@common
@click.option("--json", "as_json", is_flag=True, help="The whole of it, for scripts.")
@click.option("--watch", "again", is_flag=True, help="Then a line when a finding begins or ends; with --json all of it at every interval.")
@configured
def status(config: Config, as_json: bool, again: bool) -> None:
    """One look, as text or JSON. Exit: 0 fine, 1 warnings, 2 critical, 3 unknown."""
    sys.exit(look_commands.status(config, as_json=as_json, again=again))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts: every check with its verdict, and the whole status.")
@click.option(
    "--bundle", metavar="FILE", type=click.Path(dir_okay=False), help="Also write all of it, and the ends of Ray's own logs, to FILE."
)
@common
@configured
def doctor(config: Config, as_json: bool, bundle: str | None) -> None:
    """Look at every host once: what is wrong, what is fine, and what could not be looked at. Exit as of `status`."""
    try:
        code = look_commands.doctor(config, as_json=as_json, bundle=bundle)
    except InputError as error:
        _refuse(str(error))
    sys.exit(code)


@main.command()
@click.argument("id")
@click.option("-f", "--follow", is_flag=True, help="Until the job is over.")
@click.option("-n", "lines", type=click.IntRange(-1), default=1000, metavar="N", help="From the last N lines on (default 1000; all: -1).")
@common
@configured
def logs(config: Config, id: str, follow: bool, lines: int) -> None:  # noqa: A002 what Ray calls it
    """The log of a job's driver. Exit: 0, or 3 when it can't be had."""
    from cockpit.commands import print_log

    sys.exit(print_log(config, id, follow=follow, lines=lines))


@main.group()
def config() -> None:
    """The config file."""


@config.command("init")
def config_init() -> None:
    """Write a commented config file where there is none."""
    try:
        init(config_path())
    except InputError as error:
        _refuse(str(error))
    click.echo(f"Written: {config_path()}")


@config.command("print")
@common
@configured
def config_print(config: Config) -> None:
    """What holds now, and where each value comes from."""
    click.echo(config_text(config), nl=False)


@config.command("path")
def config_file() -> None:
    """Where the file is, or would be."""
    click.echo(config_path())


@main.command("schema")
@click.argument("what", type=click.Choice(["status", "check", "preset", "config"]), default="status")
def print_schema(what: str) -> None:
    """The JSON Schema of `status --json`, of `check --json`, of a preset, or of the config file."""
    from cockpit.check import check_schema
    from cockpit.presets import preset_schema
    from cockpit.status import status_schema

    made = {"status": status_schema, "check": check_schema, "preset": preset_schema, "config": schema}[what]
    click.echo(json.dumps(made(), indent=2))


@main.command()
@common
@configured
def demo(config: Config) -> None:
    """A real local Ray cluster with simulated GPUs and some trouble, and the screen on it."""
    from cockpit.demo import run_demo

    sys.exit(run_demo(partial(_demo_screen, config)))


def _acting_commands() -> list[click.Command]:
    from cockpit.check_command import check_command
    from cockpit.commands import act_commands
    from cockpit.launch_commands import launch_command
    from cockpit.preset_commands import presets_command
    from cockpit.recover_command import recover_command

    presets = [make(common, configured) for make in (check_command, launch_command, recover_command)]
    return [*act_commands(common, configured), *presets, presets_command(configured)]


def _demo_screen(config: Config, address: str, _: dict[str, str]) -> None:
    show(replace(config, address=address))
