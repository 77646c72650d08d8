"""Records without a screen, cuts a part out of a recording (`cockpit record`), and finds recordings for other commands."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from cockpit.actions.audit import audit_path
from cockpit.cli.options import (
    BAD_USAGE,
    DONE,
    NO_ANSWER,
    NOT_ALL,
    cluster_options,
    command,
    print_error,
    run_until_interrupted,
    with_config,
)
from cockpit.cli.service import PollStep, serve, unit_text
from cockpit.config.settings import Config
from cockpit.model import Cluster
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.notify.message import is_near
from cockpit.recording.cut import cut
from cockpit.recording.files import Segment, list_segments
from cockpit.recording.folder import list_recordings, recordings_path
from cockpit.recording.recorder import Recorder
from cockpit.recording.recording import Recording, RecordingError
from cockpit.report.snapshot_text import status_text
from cockpit.report.status import exit_code, status_json
from cockpit.text import explain_os_error, output
from cockpit.times.moments import format_time, parse_moment, parse_span


def attach_recorder(config: Config, monitor: ClusterMonitor) -> Recorder | None:
    """Record the monitor's snapshots until it ends; `None` if recording is off, or cockpit is read-only."""
    if config.readonly or not config.record:
        return None
    recorder = Recorder(recordings_path(), config.recording, actions_log=audit_path())
    monitor.poller.subscribe(recorder.on_snapshot)
    monitor.ending.append(recorder.close)
    return recorder


@command("record", {0: "the unit is printed, or FILE is written", 1: "not recorded", 3: "no such recording, or bad usage"})
@click.argument("recording", required=False, type=click.Path())
@click.option("--unit", is_flag=True, help="Print a systemd user unit.")
@click.option(
    "--cut", "span", metavar="FROM..TO", help="Write what was recorded from FROM to TO (02:10..02:40, -1h..-30m) to the file of -o."
)
@click.option("-o", "--output", "path", metavar="FILE", type=click.Path(dir_okay=False), help="The file that --cut writes.")
@cluster_options
@with_config
def record(config: Config, recording: str | None, unit: bool, span: str | None, path: str | None) -> int:
    """Record a cluster without a screen.

    Runs until interrupted. The screen records too; only one cockpit records a cluster, the others name it. RECORDING, for --cut,
    is a folder or a file; default: the latest.
    """
    if (span is None) != (path is None) or (recording is not None and span is None):
        raise click.UsageError("--cut needs -o FILE, and -o and RECORDING need --cut")
    if unit:
        output.print_line(unit_text(config, "record", "records a Ray cluster"))
        return DONE
    if span is not None and path is not None:
        return _cut(config, span, path, recording)
    if config.readonly:
        return print_error(f"record: {config.readonly_reason}", NOT_ALL)
    if not config.record:
        return print_error(f"record: recording is off ({config.origins.get('record', 'record: off')})", NOT_ALL)
    return run_until_interrupted(serve(config, _attach))


def _cut(config: Config, span: str, path: str, source: str | None) -> int:
    try:
        recording = find_recording(source, None, config.address)
        begin, end = parse_span(span, recording.end if source else time.time())
        frames = cut(recording, begin, end, Path(path))
    except (RecordingError, ValueError) as error:
        return print_error(str(error), BAD_USAGE)
    except OSError as error:
        return print_error(f"{path}: {explain_os_error(error)}", NOT_ALL)
    output.print_note(f"Written: {path}, {frames} frames, {os.path.getsize(path)} bytes (secrets hidden; look at it before you send it)")
    return DONE


def _attach(config: Config, monitor: ClusterMonitor) -> PollStep:
    recorder, printed = attach_recorder(config, monitor), ""

    def print_state() -> None:
        """Print where it records, or why not, whenever that changes."""
        nonlocal printed
        path, reason = (recorder.state.path, recorder.state.reason) if recorder else (None, None)
        text = "; ".join(filter(None, (f"recording to {path}" if path else "", reason)))
        if text and text != printed:
            output.print_note(text)
            printed = text

    return print_state


def find_recording(path: str | None, moment: float | None = None, address: str | None = None) -> Recording:
    """The recording at this path; without a path, the latest one of this address that covers the moment. Raises `RecordingError`."""
    if path is not None:
        return Recording.open(Path(path))
    spans: list[tuple[float, float]] = []  # the gap that the moment is in, else the beginning and end of the recording
    for folder in list_recordings(recordings_path()):
        try:
            recording = Recording.open(folder)
        except RecordingError:
            continue
        if address in (None, recording.cluster.address):
            if moment is None or recording.covers(moment):
                return recording
            gaps = (gap for gap in recording.gaps if gap[0] < moment < gap[1])
            spans.append(next(gaps, (recording.begin, recording.end)))
        recording.close()
    if moment is None or not spans:
        of = "" if address is None else f" of {address}"
        raise RecordingError(f"no recording{of} in {recordings_path()}; an open screen records, and so does `cockpit record`")

    now = time.time()
    gap = next((span for span in spans if span[0] < moment < span[1]), None)
    first, last = gap or (min(begin for begin, _ in spans), max(end for _, end in spans))
    subject = "there is a gap" if gap else "the recording reaches" if len(spans) == 1 else "the recordings reach"
    reach = f"{subject} from {format_time(first, now)} to {format_time(last, now)}"
    raise RecordingError(f"nothing was recorded at {format_time(moment, now)}; {reach}")


def folders_at(address: str | None, host: str | None) -> Iterator[Path]:
    """The folders of recordings of this address as seen from this host, and of recordings without a Ray; the oldest first."""
    hosts = (host, None) if is_near(Cluster(address)) else None  # recordings of an older cockpit don't have the host
    for folder in reversed(list(list_recordings(recordings_path()))):
        try:
            segment = Segment(list(list_segments(folder))[-1])
        except (RecordingError, OSError, IndexError):
            continue
        if segment.header.address in (address, None) and (hosts is None or segment.header.host in hosts):
            yield folder
        segment.close()


def status_at(config: Config, at: str, *, as_json: bool) -> int:
    """Print the status at that moment, from a recording; return the exit code."""
    try:
        moment = parse_moment(at, time.time(), at_its_end=True)
        snapshot = find_recording(None, moment, config.address).snapshot_at(moment)
    except ValueError as error:
        return print_error(f"--at: {error}", BAD_USAGE)
    except RecordingError as error:
        return print_error(str(error), NO_ANSWER)
    if snapshot is None:
        return print_error("what was recorded at that time is damaged", NO_ANSWER)
    if as_json:
        output.print_json(status_json(snapshot, indent=2))
    else:
        output.print_line(f"As recorded at {format_time(snapshot.taken, time.time())}:\n{status_text(snapshot)}")
    return exit_code(snapshot, [host.name for host in config.hosts])
