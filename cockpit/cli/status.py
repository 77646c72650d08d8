"""Prints the state of the cluster once, or at each interval (`cockpit status`), and the result of every check (`cockpit doctor`)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from cockpit.cli.line import print_line
from cockpit.cli.options import STATUS_EXIT_CODES, cluster_options, command, json_option, run_until_interrupted, with_config
from cockpit.cli.record import status_at
from cockpit.cli.service import PollStep, serve, write_line_of
from cockpit.config.address import explain_choices
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor, hosts_timeout_s, sample_once
from cockpit.recording.folder import folder_name, recordings_path
from cockpit.report.doctor import doctor_json, doctor_text, last_half_hour, run_checks, write_bundle
from cockpit.report.snapshot_text import changes, status_text
from cockpit.report.status import exit_code, status_json
from cockpit.text import explain_os_error, output

DOCTOR_TIMEOUT_S = 20.0
"""Seconds for which `doctor` waits for every host."""
FIRST_SAMPLE_TIMEOUT_S = 8.0
"""Seconds for which `status --watch` waits before it prints the first status."""


@command("status", STATUS_EXIT_CODES)
@json_option
@click.option(
    "--watch", is_flag=True, help="Keep running; print findings as they start and clear. With --json: print everything at each interval."
)
@click.option("--at", metavar="TIME", help="The state at TIME, from the recording: 03:10, -20m, 2026-11-23T03:10.")
@click.option("--line", is_flag=True, help="Print one line for tmux or a prompt: the last state that any cockpit saved; it polls nothing.")
@cluster_options
@with_config
def status(config: Config, as_json: bool, watch: bool, at: str | None, line: bool) -> int:
    """Print the state of the cluster, as text or JSON."""
    if line and (as_json or watch or at):
        raise click.UsageError("--line prints the last known state: it can't be used with --json, --watch or --at")
    if at is not None and watch:
        raise click.UsageError("--at prints one moment, --watch keeps running: use one of them")
    if at is not None:
        return status_at(config, at, as_json=as_json)
    if line:
        return print_line(config.address, ascii=config.ascii)
    return run_until_interrupted(_watch(config, as_json=as_json)) if watch else print_status(config, as_json=as_json)


def print_status(config: Config, *, as_json: bool = False) -> int:
    """Print the status once; return the exit code."""

    async def look_and_print() -> int:
        snapshot = await sample_and_write_line(config)
        if as_json:
            output.print_json(status_json(snapshot, indent=2))
        else:
            output.print_line(status_text(snapshot))
        return exit_code(snapshot, [host.name for host in config.hosts])

    return run_until_interrupted(look_and_print())


async def _watch(config: Config, *, as_json: bool) -> int:
    async def wait_for_facts(monitor: ClusterMonitor) -> None:
        await asyncio.sleep(config.interval if as_json else 0)
        await monitor.wait_until_complete(0 if as_json else FIRST_SAMPLE_TIMEOUT_S)

    def attach(_: Config, monitor: ClusterMonitor) -> PollStep:
        printed: Snapshot | None = None

        def print_news() -> None:
            nonlocal printed
            snapshot = monitor.poller.snapshot
            if as_json:
                output.print_json(status_json(snapshot))
            else:
                for text in [status_text(snapshot) + "\n"] if printed is None else changes(printed, snapshot):
                    output.print_line(text)
            printed = snapshot

        return print_news

    return await serve(config, attach, every=config.interval, wait=wait_for_facts)


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
async def doctor(config: Config, as_json: bool, bundle: str | None) -> int:
    """Run every check once, on every host.

    It prints problems, passed checks, and checks that could not run.
    """
    monitor = await sample_one_cluster(config, everywhere=config.probe_hosts != "never", patience=DOCTOR_TIMEOUT_S)
    snapshot = monitor.poller.snapshot
    checked = run_checks(snapshot, config.limits)
    if as_json:
        output.print_json(doctor_json(snapshot, checked, config))
    else:
        output.print_line(doctor_text(snapshot, checked, config))
    if bundle is not None:
        try:
            recorded = last_half_hour(recordings_path() / folder_name(snapshot.cluster))
            write_bundle(Path(bundle), snapshot, checked, config, recorded)
        except OSError as error:
            raise InputError(f"{bundle}: {explain_os_error(error)}") from None
        output.print_line(f"\nWritten: {bundle} (secrets hidden; read it before you send it)", err=True)
    return exit_code(snapshot, [host.name for host in config.hosts])


async def sample_one_cluster(config: Config, **how: Any) -> ClusterMonitor:
    """A monitor after one sample; `how` as for `sample_once`. Raises `InputError` if a person must choose between several Rays."""
    monitor = await sample_once(config, **how)
    if monitor.open_choices:
        raise InputError(explain_choices(monitor.open_choices))
    return monitor


async def sample_and_write_line(config: Config) -> Snapshot:
    """One snapshot, which is also written as a line for `status --line`. Raises `InputError` as `sample_one_cluster` does."""
    snapshot = (await sample_one_cluster(config, hosts_patience=hosts_timeout_s(config))).poller.snapshot
    write_line_of(config, snapshot)
    return snapshot
