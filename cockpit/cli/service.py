"""Looks without a screen: one, or at intervals until it is ended; and the systemd unit that runs the latter."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from cockpit.cli.options import BAD_USAGE, NOT_ALL, print_error
from cockpit.config.address import explain_choices
from cockpit.config.document import InputError
from cockpit.config.settings import Config
from cockpit.model import Snapshot
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.report.line import LineWriter, is_worth_a_line, make_line, write_line

LOOK_EVERY_S = 1.0
PollStep = Callable[[], "int | None"]
"""Called at each interval; an exit code ends it."""
Attach = Callable[[Config, "ClusterMonitor"], PollStep]
WaitForFacts = Callable[["ClusterMonitor"], Awaitable[None]]
"""What the first look waits for."""
UNIT = """\
# A systemd unit that {does} as long as this host runs:
#   cockpit {name} --unit > ~/.config/systemd/user/cockpit-{name}.service
#   systemctl --user enable --now cockpit-{name}; loginctl enable-linger
[Unit]
Description=cockpit {does}

[Service]
ExecStart={command}
EnvironmentFile=-%E/cockpit/environment
Restart=on-failure
RestartSec=30
Nice=10

[Install]
WantedBy=default.target"""


def look_interruptibly(look: Coroutine[Any, Any, int]) -> int:
    """Its exit code, that of bad usage for an `InputError`; ctrl+c and a reader who has gone end it without a word."""
    try:
        return asyncio.run(look)
    except InputError as error:
        return print_error(str(error), BAD_USAGE)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def serve(config: Config, attach: Attach, *, every: float = LOOK_EVERY_S, wait: WaitForFacts | None = None) -> int:
    """Watch the cluster until it is interrupted; the exit code. Without `wait` it looks at once."""
    return look_interruptibly(_serve(config, attach, every, wait))


async def _serve(config: Config, attach: Attach, every: float, wait: WaitForFacts | None) -> int:
    monitor = ClusterMonitor(config, lambda _: None)
    look = attach(config, monitor)
    attach_line_writer(config, monitor)
    running, ended = asyncio.ensure_future(monitor.run()), asyncio.Event()
    pause = asyncio.ensure_future(wait(monitor) if wait else asyncio.sleep(0))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    try:
        while not running.done() and not ended.is_set():
            if monitor.open_choices:
                return print_error(explain_choices(monitor.open_choices), BAD_USAGE)
            if pause.done():
                if (code := look()) is not None:
                    return code
                pause = asyncio.ensure_future(asyncio.sleep(every))
            waiting = asyncio.ensure_future(ended.wait())
            await asyncio.wait([running, pause, waiting], timeout=LOOK_EVERY_S, return_when="FIRST_COMPLETED")
            waiting.cancel()
    finally:
        monitor.close()
        running.cancel()
    return 128 + signal.SIGTERM if ended.is_set() else NOT_ALL


def attach_line_writer(config: Config, monitor: ClusterMonitor) -> None:
    """Have what this monitor sees left as a line for `status --line`; a read-only cockpit writes no file."""
    if not config.readonly:
        monitor.poller.subscribe(LineWriter([host.name for host in config.hosts]).hear)


def write_line_of(config: Config, snapshot: Snapshot) -> None:
    """The same of a single look. Where it can't be written, the old line stays and says how old it is."""
    if not config.readonly:
        with suppress(OSError):
            if is_worth_a_line(snapshot):
                write_line(make_line(snapshot, [host.name for host in config.hosts]))


def unit_text(config: Config, name: str, does: str) -> str:
    """A systemd user unit that runs this command as it is called here; what is in the config file it reads itself."""
    program = shutil.which("cockpit") or str(Path(sys.argv[0]).absolute())
    words = [program, name, *(["--address", config.address] if config.address else []), *_given_options()]
    command = shlex.join(words).translate({ord(sign): sign * 2 for sign in "\\$%"})  # systemd reads them within quotes too
    return UNIT.format(name=name, does=does, command=command)


def _given_options() -> Iterator[str]:
    """Those that say which hosts are looked at, and how often. A file is named from the root: the unit runs elsewhere."""
    context = click.get_current_context()
    for option in ("hosts", "slurm", "kubernetes", "interval"):
        value = context.params[option] or context.find_root().params.get(option)
        if value is not None:
            is_file = option == "hosts" and "," not in value and os.path.isfile(value)
            yield from (f"--{option}", str(Path(value).absolute()) if is_file else value)
