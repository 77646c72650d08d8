"""`cockpit status` and `cockpit doctor`: one look at the cluster, or one at each interval until it is interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from cockpit import output
from cockpit.cli.line import attach_line_writer, leave_line_of
from cockpit.cli.options import BAD_USAGE, refuse
from cockpit.config.document import InputError
from cockpit.config.settings import Config, explain_choices
from cockpit.text import explain_os_error

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
    """Print the report; the exit code."""
    return look_interruptibly(_print_report(config, as_json=as_json, bundle=bundle))


def look_interruptibly(look: Coroutine[Any, Any, int]) -> int:
    """Its exit code, that of bad usage for an `InputError`; ctrl+c and a reader who has gone end it without a word."""
    import asyncio

    try:
        return asyncio.run(look)
    except InputError as error:
        return refuse(str(error), BAD_USAGE)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def look_at_one(config: Config, **how: Any) -> ClusterMonitor:
    """One look, as `look_once` takes it. Raises `InputError` where a person must choose between several Rays."""
    from cockpit.monitor.monitor import look_once

    monitor = await look_once(config, **how)
    if monitor.open_choices:
        raise InputError(explain_choices(monitor.open_choices))
    return monitor


async def _print_status(config: Config, *, as_json: bool) -> int:
    from cockpit.monitor.monitor import OTHER_HOSTS_PATIENCE_S
    from cockpit.report.status import exit_code, status_json
    from cockpit.report.text import status_text

    snapshot = (await look_at_one(config, hosts_patience=OTHER_HOSTS_PATIENCE_S)).poller.snapshot
    if as_json:
        output.say_json(status_json(snapshot, indent=2))
    else:
        output.say(status_text(snapshot))
    leave_line_of(config, snapshot)
    return exit_code(snapshot, [host.name for host in config.hosts])


async def _watch(config: Config, *, as_json: bool) -> int:
    import asyncio

    from cockpit.monitor.monitor import ClusterMonitor
    from cockpit.report.status import status_json
    from cockpit.report.text import changes, status_text

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
                for text in [status_text(snapshot) + "\n"] if printed is None else changes(printed, snapshot):
                    output.say(text)
            printed = snapshot
            output.flush()
            await asyncio.sleep(config.interval)
    finally:
        monitor.close()
        running.cancel()
    return 0


async def _print_report(config: Config, *, as_json: bool, bundle: str | None) -> int:
    from pathlib import Path

    from cockpit.recording.folder import folder_name, recordings_path
    from cockpit.report.doctor import doctor_json, doctor_text, run_checks, write_bundle
    from cockpit.report.recorded import last_half_hour
    from cockpit.report.status import exit_code

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
