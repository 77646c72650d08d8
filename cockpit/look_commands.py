"""`cockpit status` and `cockpit doctor`: one look, or looks until somebody has seen enough."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import click

from cockpit.config import Config, several
from cockpit.document import InputError

if TYPE_CHECKING:
    from cockpit.lookout import Lookout
    from cockpit.model import Snapshot

BAD_USAGE = 3
"""Of commands that look; acts have codes of their own."""


def status(config: Config, *, as_json: bool, again: bool = False) -> int:
    """Prints it; the exit code."""
    return _interruptible(_watched(config, as_json=as_json) if again else _looked(config, as_json=as_json))


def doctor(config: Config, *, as_json: bool, bundle: str | None) -> int:
    """Prints it; the exit code. Raises `InputError` where the bundle can't be written."""
    return _interruptible(_examined(config, as_json=as_json, bundle=bundle))


def _interruptible(look: Coroutine[Any, Any, int]) -> int:
    import asyncio

    try:
        return asyncio.run(look)
    except KeyboardInterrupt:
        _leave_connections()
        return 130
    except BrokenPipeError:
        _leave_connections()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _leave_connections() -> None:
    """One that is given up before its first step stays a coroutine that nobody awaits (anyio), and Python would tell so at its end."""
    warnings.filterwarnings("ignore", message="coroutine '.*' was never awaited", category=RuntimeWarning)


async def _looked(config: Config, *, as_json: bool) -> int:
    from cockpit.lookout import look_once
    from cockpit.report import status_text
    from cockpit.status import exit_code, status_json

    lookout = await look_once(config)
    if lookout.undecided:
        return _ask_which(lookout)
    snapshot = lookout.poller.snapshot
    click.echo(status_json(snapshot, indent=2) if as_json else status_text(snapshot))
    return exit_code(snapshot, [host.name for host in config.hosts])


def _ask_which(lookout: Lookout) -> int:
    click.echo(f"cockpit: {several(lookout.undecided)}", err=True)
    return BAD_USAGE


async def _watched(config: Config, *, as_json: bool) -> int:
    import asyncio

    from cockpit.lookout import Lookout
    from cockpit.status import status_json

    lookout = Lookout(config, lambda _: None)
    running = asyncio.ensure_future(lookout.run())
    told: Snapshot | None = None
    try:
        await asyncio.sleep(config.interval if as_json else 0)
        await lookout.known(0 if as_json else 8.0)
        while not running.done():
            snapshot = lookout.poller.snapshot
            if as_json:
                click.echo(status_json(snapshot))
            else:
                _tell(told, snapshot)
            told = snapshot
            sys.stdout.flush()
            await asyncio.sleep(config.interval)
    finally:
        lookout.close()
        running.cancel()
    return 0


def _tell(before: Snapshot | None, snapshot: Snapshot) -> None:
    """All of it at first; then what has changed."""
    from cockpit.report import changes, status_text

    for text in [status_text(snapshot) + "\n"] if before is None else changes(before, snapshot):
        click.echo(text)


async def _examined(config: Config, *, as_json: bool, bundle: str | None) -> int:
    from pathlib import Path

    from cockpit.doctor import doctor_json, doctor_text, examined, write_bundle
    from cockpit.lookout import look_once
    from cockpit.status import exit_code

    lookout = await look_once(config, everywhere=config.probe_hosts != "never", patience=20.0)
    if lookout.undecided:
        return _ask_which(lookout)
    snapshot = lookout.poller.snapshot
    checked = examined(snapshot, config.limits)
    click.echo(doctor_json(snapshot, checked) if as_json else doctor_text(snapshot, checked))
    if bundle is not None:
        try:
            write_bundle(Path(bundle), snapshot, checked, config)
        except OSError as error:
            raise InputError(f"{bundle}: {(error.strerror or str(error)).lower()}") from None
        click.echo(f"\nWritten: {bundle} (secrets hidden; read it before you send it)", err=True)
    return exit_code(snapshot, [host.name for host in config.hosts])
