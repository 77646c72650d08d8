"""Watches the cluster without a screen until it is interrupted, and writes the systemd unit that does so."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from cockpit.cli.options import BAD_USAGE, NOT_ALL, print_error
from cockpit.cli.systemd import ServiceNotifier
from cockpit.config.address import explain_choices
from cockpit.config.settings import Config
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.report.line import LineWriter, is_worth_a_line, write_line

CHECK_INTERVAL_S = 1.0
PollStep = Callable[[], "int | None"]
"""Called at each interval; an exit code ends the command."""
Attach = Callable[[Config, "ClusterMonitor"], PollStep]
WaitForFacts = Callable[["ClusterMonitor"], Awaitable[None]]
UNIT = """\
# A systemd unit that {does} as long as this host runs:
#   cockpit {words} --unit > ~/.config/systemd/user/cockpit-{name}.service
#   systemctl --user enable --now cockpit-{name}; loginctl enable-linger
[Unit]
Description=cockpit {does}

[Service]
Type=notify
ExecStart={command}
EnvironmentFile=-%E/cockpit/environment
SuccessExitStatus=143
Restart=on-failure
RestartSec=30
Nice=10

# It is alive as long as it makes snapshots, every 2 to 4 seconds. A hung one writes the stacks of its threads, and is started again.
WatchdogSec=2min
TimeoutStopSec=20
Environment=PYTHONFAULTHANDLER=1

# ssh needs a setuid program for host-based authentication: there set the first four to no, and the next two to nothing.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_VSOCK
UMask=0077

[Install]
WantedBy=default.target"""


async def serve(config: Config, attach: Attach, *, every: float = CHECK_INTERVAL_S, wait: WaitForFacts | None = None) -> int:
    """Watch the cluster until it is interrupted; return the exit code. `wait` delays the first step until facts are known."""
    notifier = ServiceNotifier()
    monitor = ClusterMonitor(config, lambda _: None)
    step = attach(config, monitor)
    attach_line_writer(config, monitor)
    monitor.poller.subscribe(lambda _: _report_progress(notifier, monitor))  # last: one of the others may hang
    running, ended = asyncio.ensure_future(monitor.run()), asyncio.Event()
    pause = asyncio.ensure_future(wait(monitor) if wait else asyncio.sleep(0))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    try:
        while not running.done() and not ended.is_set():
            if monitor.open_choices:
                return print_error(explain_choices(monitor.open_choices), BAD_USAGE)
            if pause.done():
                if (code := step()) is not None:
                    return code
                pause = asyncio.ensure_future(asyncio.sleep(every))
            waiting = asyncio.ensure_future(ended.wait())
            await asyncio.wait([running, pause, waiting], timeout=CHECK_INTERVAL_S, return_when="FIRST_COMPLETED")
            waiting.cancel()
    finally:
        notifier.report_stopping()
        monitor.close()
        running.cancel()
    return 128 + signal.SIGTERM if ended.is_set() else NOT_ALL


def _report_progress(notifier: ServiceNotifier, monitor: ClusterMonitor) -> None:
    """Called with each new snapshot, so that nothing feeds the watchdog of a poller that hangs."""
    if monitor.poller.answered:
        notifier.report_ready()
    notifier.feed_watchdog()


def attach_line_writer(config: Config, monitor: ClusterMonitor) -> None:
    """Write each snapshot as a line for `status --line`; a read-only cockpit writes no file."""
    if not config.readonly:
        monitor.poller.subscribe(LineWriter([host.name for host in config.hosts]).on_snapshot)


def write_line_of(config: Config, snapshot: Snapshot) -> None:
    """Write one snapshot as a line for `status --line`. If that fails, the old line stays, and readers see its age."""
    if not config.readonly and is_worth_a_line(snapshot):
        with suppress(OSError):
            write_line(snapshot, [host.name for host in config.hosts])


def unit_text(config: Config, name: str, does: str, own_words: Sequence[str] = ()) -> str:
    """A systemd user unit that runs this command with the options of this call; it reads the config file itself.

    `own_words`: options that only this command has.
    """
    words = [shutil.which("cockpit") or str(Path(sys.argv[0]).absolute()), name, *own_words]
    if config.address:
        words += ["--address", config.address]
    context = click.get_current_context()
    for option in ("hosts", "slurm", "kubernetes", "interval"):
        value = context.params[option] or context.find_root().params.get(option)
        if value is not None:
            is_file = option == "hosts" and "," not in value and os.path.isfile(value)
            # The unit runs in another folder, so a file gets its absolute path.
            words += [f"--{option}", str(Path(value).absolute()) if is_file else value]
    command = shlex.join(words).translate({ord(sign): sign * 2 for sign in "\\$%"})  # systemd expands these within quotes too
    return UNIT.format(name=name, does=does, words=shlex.join([name, *own_words]), command=command)
