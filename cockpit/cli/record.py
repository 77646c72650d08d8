"""`cockpit record`: records without a screen, prints a systemd unit, cuts a part out; and the recording that a moment lies in."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cockpit import output
from cockpit.cli.exit_codes import BAD_USAGE, DONE, NO_ANSWER, NOT_ALL, with_exit_codes
from cockpit.cli.line import attach_line_writer
from cockpit.config.settings import Config, explain_choices

if TYPE_CHECKING:
    from cockpit.monitor.monitor import ClusterMonitor
    from cockpit.recording.recorder import Recorder
    from cockpit.recording.recording import Recording

LOOK_EVERY_S = 1.0
HELP = """Record a cluster without a screen.

It goes on until it is interrupted. The screen records too; one cockpit records a cluster, and others say so. RECORDING, for --cut, is a
folder or a file; by default what was recorded last."""
UNIT = """\
# A systemd unit that records as long as this host runs:
#   cockpit record --unit > ~/.config/systemd/user/cockpit-record.service
#   systemctl --user enable --now cockpit-record; loginctl enable-linger
[Unit]
Description=cockpit records a Ray cluster

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=30
Nice=10

[Install]
WantedBy=default.target"""


def make_recorder(config: Config) -> Recorder | None:
    """`None` where nothing is to be recorded."""
    if config.readonly or not config.record:
        return None
    from cockpit.acts.audit import audit_path
    from cockpit.recording.folder import recordings_path
    from cockpit.recording.recorder import Recorder

    return Recorder(recordings_path(), config.recording, acts_log=audit_path())


def attach_recorder(config: Config, monitor: ClusterMonitor) -> Recorder | None:
    """Have it record what this monitor sees, and end with it."""
    recorder = make_recorder(config)
    if recorder is not None:
        monitor.poller.subscribe(recorder.hear)
        monitor.ending.append(recorder.close)
    return recorder


def record(config: Config) -> int:
    """Record until it is interrupted; the exit code."""
    if config.readonly:
        output.note(f"record: {config.readonly_reason}")
        return NOT_ALL
    if not config.record:
        output.note(f"record: it is off ({config.origins.get('record', 'record: off')})")
        return NOT_ALL
    import asyncio

    try:
        return asyncio.run(_record(config))
    except KeyboardInterrupt:
        return 130


async def _record(config: Config) -> int:
    import asyncio

    from cockpit.monitor.monitor import ClusterMonitor

    monitor = ClusterMonitor(config, lambda _: None)
    recorder = attach_recorder(config, monitor)
    attach_line_writer(config, monitor)
    running, ended = asyncio.ensure_future(monitor.run()), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    said = None
    try:
        while recorder is not None and not running.done() and not ended.is_set():
            if monitor.open_choices:
                output.note(explain_choices(monitor.open_choices))
                return BAD_USAGE
            said = _say_state(recorder, said)
            await asyncio.wait(
                [running, waiting := asyncio.ensure_future(ended.wait())], timeout=LOOK_EVERY_S, return_when="FIRST_COMPLETED"
            )
            waiting.cancel()
    finally:
        monitor.close()
        running.cancel()
    return 128 + signal.SIGTERM if ended.is_set() else NOT_ALL


def _say_state(recorder: Recorder, said: str | None) -> str | None:
    """Whether it records now, where that is another than was said last."""
    path, reason, _ = recorder.state
    text = "; ".join(filter(None, (f"recording to {path}" if path else "", reason))) or None
    if text is not None and text != said:
        output.note(text)
    return text or said


def unit_text(config: Config) -> str:
    """A systemd user unit that runs `cockpit record` as it is called here."""
    program = shutil.which("cockpit") or str(Path(sys.argv[0]).absolute())
    words = [program, "record", *(["--address", config.address] if config.address else [])]
    return UNIT.format(command=shlex.join(words).replace("%", "%%"))


def find_recording(path: str | None, moment: float | None = None, address: str | None = None) -> Recording:
    """The one that was named; else the last that covers that moment, of that address. Raises `RecordingError`."""
    from cockpit.recording.folder import list_recordings, recordings_path
    from cockpit.recording.recording import Recording, RecordingError

    if path is not None:
        return Recording.open(Path(path))
    for folder in list_recordings(recordings_path()):
        try:
            recording = Recording.open(folder)
        except RecordingError:
            continue
        if address in (None, recording.cluster.address) and (moment is None or recording.covers(moment)):
            return recording
        recording.close()
    raise RecordingError("nothing was recorded at that time" if moment is not None else f"nothing is recorded in {recordings_path()}")


def cut_out(config: Config, span: str, path: str, source: str | None) -> int:
    """Write a part of a recording to a file; the exit code."""
    from cockpit.recording.cut import cut
    from cockpit.recording.moments import parse_span
    from cockpit.recording.recording import RecordingError

    try:
        recording = find_recording(source, None, config.address)
        begin, end = parse_span(span, recording.end if source else time.time())
        frames = cut(recording, begin, end, Path(path))
    except (RecordingError, ValueError) as error:
        output.note(str(error))
        return BAD_USAGE
    except OSError as error:
        output.note(f"{path}: {(error.strerror or str(error)).lower()}")
        return NOT_ALL
    output.note(f"Written: {path}, {frames} frames, {os.path.getsize(path)} bytes (secrets hidden; look at it before you send it)")
    return DONE


def record_command(cluster_options: Callable[..., Any], configured: Callable[..., Any]) -> click.Command:
    """The command."""

    @click.command("record", help=with_exit_codes(HELP, {0: "printed, written", 1: "not recorded", 3: "no such recording, or bad usage"}))
    @click.argument("recording", required=False, type=click.Path())
    @click.option("--unit", is_flag=True, help="Print a systemd user unit.")
    @click.option("--cut", "span", metavar="FROM..TO", help="Write what was recorded in that time to FILE: 02:10..02:40, -1h..-30m.")
    @click.option("-o", "--output", "path", metavar="FILE", type=click.Path(dir_okay=False), help="The file of --cut.")
    @cluster_options
    @configured
    def command(config: Config, recording: str | None, unit: bool, span: str | None, path: str | None) -> None:
        if (span is None) != (path is None) or (recording is not None and span is None):
            raise click.UsageError("--cut needs -o FILE, and -o and RECORDING need --cut")
        if unit:
            output.say(unit_text(config))
        elif span is not None and path is not None:
            sys.exit(cut_out(config, span, path, recording))
        else:
            sys.exit(record(config))

    return command


def status_at(config: Config, at: str, *, as_json: bool) -> int:
    """Print the status as it was at that moment; the exit code."""
    from cockpit.moment import parse_moment
    from cockpit.recording.recording import RecordingError
    from cockpit.report.status import exit_code, status_json
    from cockpit.report.text import status_text

    try:
        moment = parse_moment(at, time.time())
        snapshot = find_recording(None, moment, config.address).snapshot_at(moment)
    except ValueError as error:
        output.note(f"--at: {error}")
        return BAD_USAGE
    except RecordingError as error:
        output.note(str(error))
        return NO_ANSWER
    if snapshot is None:
        output.note("what was recorded at that time is damaged")
        return NO_ANSWER
    (output.say_json if as_json else output.say)(status_json(snapshot, indent=2) if as_json else status_text(snapshot))
    return exit_code(snapshot, [host.name for host in config.hosts])
