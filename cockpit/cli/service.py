"""What runs without a screen until it is ended, and the systemd unit that runs it."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cockpit.cli.line import attach_line_writer
from cockpit.cli.options import BAD_USAGE, NOT_ALL, refuse
from cockpit.cli.status import look_interruptibly
from cockpit.config.address import explain_choices
from cockpit.config.settings import Config

if TYPE_CHECKING:
    from cockpit.monitor.monitor import ClusterMonitor

LOOK_EVERY_S = 1.0
Look = Callable[[], "int | None"]
"""Called every second; an exit code ends it."""
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


def serve(config: Config, attach: Callable[[Config, ClusterMonitor], Look]) -> int:
    """Watch the cluster until it is interrupted; the exit code."""
    return look_interruptibly(_serve(config, attach))


async def _serve(config: Config, attach: Callable[[Config, ClusterMonitor], Look]) -> int:
    import asyncio

    from cockpit.monitor.monitor import ClusterMonitor

    monitor = ClusterMonitor(config, lambda _: None)
    look = attach(config, monitor)
    attach_line_writer(config, monitor)
    running, ended = asyncio.ensure_future(monitor.run()), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    try:
        while not running.done() and not ended.is_set():
            if monitor.open_choices:
                return refuse(explain_choices(monitor.open_choices), BAD_USAGE)
            if (code := look()) is not None:
                return code
            await asyncio.wait(
                [running, waiting := asyncio.ensure_future(ended.wait())], timeout=LOOK_EVERY_S, return_when="FIRST_COMPLETED"
            )
            waiting.cancel()
    finally:
        monitor.close()
        running.cancel()
    return 128 + signal.SIGTERM if ended.is_set() else NOT_ALL


def unit_text(config: Config, name: str, does: str) -> str:
    """A systemd user unit that runs this command as it is called here."""
    program = shutil.which("cockpit") or str(Path(sys.argv[0]).absolute())
    words = [program, name, *(["--address", config.address] if config.address else [])]
    return UNIT.format(name=name, does=does, command=shlex.join(words).replace("%", "%%"))
