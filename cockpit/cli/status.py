"""`cockpit status` and `doctor`: one look at the cluster, or one at each interval until it is interrupted."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from cockpit import output
from cockpit.cli.line import print_line
from cockpit.cli.options import STATUS_EXIT_CODES, cluster_options, command, json_option, with_config
from cockpit.cli.record import status_at
from cockpit.cli.service import PollStep, look_interruptibly, serve, write_line_of
from cockpit.config.address import explain_choices
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor, hosts_timeout_s, look_once
from cockpit.recording.folder import folder_name, recordings_path
from cockpit.report.doctor import doctor_json, doctor_text, last_half_hour, run_checks, write_bundle
from cockpit.report.status import exit_code, status_json
from cockpit.report.text import changes, status_text
from cockpit.text import explain_os_error

DOCTOR_PATIENCE_S = 20.0
"""For which `doctor` waits for every host."""
FIRST_SAMPLE_PATIENCE_S = 8.0
"""For which `status --watch` waits before it prints the first status."""


@command("status", STATUS_EXIT_CODES)
@json_option
@click.option(
    "--watch", is_flag=True, help="Keep running; print findings as they start and clear. With --json: print everything at each interval."
)
@click.option("--at", metavar="TIME", help="The state at TIME, from the recording: 03:10, -20m, 2026-11-23T03:10.")
@click.option("--line", is_flag=True, help="Print one line for tmux or a prompt: the last state that any cockpit saved; it polls nothing.")
@cluster_options
@with_config
def status(config: Config, as_json: bool, watch: bool, at: str | None, line: bool) -> None:
    """Print the state of the cluster, as text or JSON."""
    if line and (as_json or watch or at):
        raise click.UsageError("--line prints the last known state: it can't be used with --json, --watch or --at")
    if at is not None and watch:
        raise click.UsageError("--at prints one moment, --watch keeps running: use one of them")
    if at is not None:
        sys.exit(status_at(config, at, as_json=as_json))
    if line:
        sys.exit(print_line(config.address, ascii=config.ascii))
    sys.exit(_watch(config, as_json=as_json) if watch else print_status(config, as_json=as_json))


def print_status(config: Config, *, as_json: bool = False) -> int:
    """Once; the exit code."""
    return look_interruptibly(_print_status(config, as_json=as_json))


@command("doctor", STATUS_EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts: every check with its result, and the status.")
@click.option(
    "--bundle",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also write FILE (.tar.gz), secrets hidden: the report, the state as JSON, settings, versions, the last half hour recorded, "
    "and the ends of the logs of this host's Ray.",
)
@cluster_options
@with_config
def doctor(config: Config, as_json: bool, bundle: str | None) -> None:
    """Run every check once, on every host.

    It prints problems, passed checks, and checks that could not run.
    """
    sys.exit(look_interruptibly(_print_report(config, as_json=as_json, bundle=bundle)))


async def look_at_one(config: Config, **how: Any) -> ClusterMonitor:
    """One look, as `look_once` takes it. Raises `InputError` where a person must choose between several Rays."""
    monitor = await look_once(config, **how)
    if monitor.open_choices:
        raise InputError(explain_choices(monitor.open_choices))
    return monitor


async def look_and_leave_line(config: Config) -> Snapshot:
    """One look; it leaves its line for `status --line`."""
    snapshot = (await look_at_one(config, hosts_patience=hosts_timeout_s(config))).poller.snapshot
    write_line_of(config, snapshot)
    return snapshot


async def _print_status(config: Config, *, as_json: bool) -> int:
    snapshot = await look_and_leave_line(config)
    if as_json:
        output.say_json(status_json(snapshot, indent=2))
    else:
        output.say(status_text(snapshot))
    return exit_code(snapshot, [host.name for host in config.hosts])


def _watch(config: Config, *, as_json: bool) -> int:
    async def wait_for_facts(monitor: ClusterMonitor) -> None:
        await asyncio.sleep(config.interval if as_json else 0)
        await monitor.wait_until_complete(0 if as_json else FIRST_SAMPLE_PATIENCE_S)

    return serve(config, partial(_attach_printer, as_json=as_json), every=config.interval, wait=wait_for_facts)


def _attach_printer(_: Config, monitor: ClusterMonitor, *, as_json: bool) -> PollStep:
    printed: Snapshot | None = None

    def look() -> None:
        nonlocal printed
        snapshot = monitor.poller.snapshot
        if as_json:
            output.say_json(status_json(snapshot))
        else:
            for text in [status_text(snapshot) + "\n"] if printed is None else changes(printed, snapshot):
                output.say(text)
        printed = snapshot

    return look


async def _print_report(config: Config, *, as_json: bool, bundle: str | None) -> int:
    look = await look_at_one(config, everywhere=config.probe_hosts != "never", patience=DOCTOR_PATIENCE_S)
    snapshot = look.poller.snapshot
    checked = run_checks(snapshot, config.limits)
    if as_json:
        output.say_json(doctor_json(snapshot, checked, config))
    else:
        output.say(doctor_text(snapshot, checked, config))
    if bundle is not None:
        try:
            recorded = last_half_hour(recordings_path() / folder_name(snapshot.cluster))
            write_bundle(Path(bundle), snapshot, checked, config, recorded)
        except OSError as error:
            raise InputError(f"{bundle}: {explain_os_error(error)}") from None
        output.say(f"\nWritten: {bundle} (secrets hidden; read it before you send it)", err=True)
    return exit_code(snapshot, [host.name for host in config.hosts])
