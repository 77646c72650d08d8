"""`cockpit status` and `cockpit doctor`: one look at the cluster, or one at each interval until it is interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from cockpit import output
from cockpit.cli.exit_codes import BAD_USAGE
from cockpit.cli.line import attach_line_writer, leave_line_of
from cockpit.config.document import InputError
from cockpit.config.settings import Config, explain_choices

if TYPE_CHECKING:
    from cockpit.model import Snapshot
    from cockpit.monitor.monitor import ClusterMonitor

DOCTOR_PATIENCE_S = 20.0
"""For which `doctor` waits for every host."""
FIRST_SAMPLE_PATIENCE_S = 8.0
"""For which `status --watch` waits before it prints the first status."""


def status(config: Config, *, as_json: bool, watch: bool = False) -> int:
    """Print the status once, or until it is interrupted; the exit code."""
    return look_interruptibly(_watch(config, as_json=as_json) if watch else _print_status(config, as_json=as_json))


def doctor(config: Config, *, as_json: bool, bundle: str | None) -> int:
    """Print the report; the exit code. Raises `InputError` where the bundle can't be written."""
    return look_interruptibly(_print_report(config, as_json=as_json, bundle=bundle))


def look_interruptibly(look: Coroutine[Any, Any, int]) -> int:
    """Its exit code; ctrl+c and a reader who has gone end it without a word."""
    import asyncio

    try:
        return asyncio.run(look)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _print_status(config: Config, *, as_json: bool) -> int:
    from cockpit.monitor.single_look import OTHER_HOSTS_PATIENCE_S, look_once
    from cockpit.report.status import exit_code, status_json
    from cockpit.report.text import status_text

    monitor = await look_once(config, hosts_patience=OTHER_HOSTS_PATIENCE_S)
    if monitor.open_choices:
        return refuse_undecided(monitor)
    snapshot = monitor.poller.snapshot
    if as_json:
        output.say_json(status_json(snapshot, indent=2))
    else:
        output.say(status_text(snapshot))
    leave_line_of(config, snapshot)
    return exit_code(snapshot, [host.name for host in config.hosts])


def refuse_undecided(monitor: ClusterMonitor) -> int:
    """Say between which Rays a person must choose; the exit code."""
    output.note(explain_choices(monitor.open_choices))
    return BAD_USAGE


async def _watch(config: Config, *, as_json: bool) -> int:
    import asyncio

    from cockpit.monitor.monitor import ClusterMonitor
    from cockpit.report.status import status_json

    monitor = ClusterMonitor(config, lambda _: None)
    attach_line_writer(config, monitor)
    running = asyncio.ensure_future(monitor.run())
    printed: Snapshot | None = None
    try:
        await asyncio.sleep(config.interval if as_json else 0)
        await monitor.wait_until_complete(0 if as_json else FIRST_SAMPLE_PATIENCE_S)
        while not running.done():
            snapshot = monitor.poller.snapshot
            if as_json:
                output.say_json(status_json(snapshot))
            else:
                _print_changes(printed, snapshot)
            printed = snapshot
            output.flush()
            await asyncio.sleep(config.interval)
    finally:
        monitor.close()
        running.cancel()
    return 0


def _print_changes(before: Snapshot | None, snapshot: Snapshot) -> None:
    """The whole status at first; then findings that started or cleared."""
    from cockpit.report.text import changes, status_text

    for text in [status_text(snapshot) + "\n"] if before is None else changes(before, snapshot):
        output.say(text)


async def _print_report(config: Config, *, as_json: bool, bundle: str | None) -> int:
    from pathlib import Path

    from cockpit.monitor.single_look import look_once
    from cockpit.recording.folder import folder_name, recordings_path
    from cockpit.report.doctor import doctor_json, doctor_text, run_checks, write_bundle
    from cockpit.report.recorded import last_half_hour
    from cockpit.report.status import exit_code

    monitor = await look_once(config, everywhere=config.probe_hosts != "never", patience=DOCTOR_PATIENCE_S)
    if monitor.open_choices:
        return refuse_undecided(monitor)
    snapshot = monitor.poller.snapshot
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
            raise InputError(f"{bundle}: {(error.strerror or str(error)).lower()}") from None
        output.say(f"\nWritten: {bundle} (secrets hidden; read it before you send it)", err=True)
    return exit_code(snapshot, [host.name for host in config.hosts])
