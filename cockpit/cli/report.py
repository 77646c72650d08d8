"""Reports what happened, from a recording: as Markdown on the terminal, or as an HTML, Markdown or JSON file (`cockpit report`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cockpit.cli.completion import complete_jobs
from cockpit.cli.options import BAD_USAGE, DONE, NOT_ALL, command, print_error, with_config
from cockpit.cli.record import find_recording, folders_at
from cockpit.config.settings import Config
from cockpit.files.atomic import OWNER_READS, write_whole
from cockpit.model import Cluster
from cockpit.recording.files import RecordingError, list_segments
from cockpit.recording.folder import folder_name
from cockpit.recording.recording import Recording
from cockpit.report.incident.account import Account, account_json
from cockpit.report.incident.gather import make_account
from cockpit.report.incident.html import account_html
from cockpit.report.incident.markdown import account_markdown, who_markdown
from cockpit.text import explain_os_error, output
from cockpit.times.moments import parse_moment

DEFAULT_SPAN_S = 86_400.0
"""The report covers this many seconds before the end of the recording, if neither --from nor --job is given."""


@command("report", {0: "printed or written", 1: "the report can't be written", 3: "no recording, or bad usage"})
@click.argument("recording", required=False, type=click.Path(path_type=Path))
@click.option(
    "--from", "begin", metavar="TIME", help="Start of the report: 03:10, -20m or 2026-11-23T03:10. Default: a day before its end."
)
@click.option("--to", "end", metavar="TIME", help="End of the report. Default: the end of the recording.")
@click.option(
    "--job",
    metavar="ID",
    shell_complete=complete_jobs,
    help="Only what concerns this job. Default for --from and --to: its beginning and its end.",
)
@click.option("--who", is_flag=True, help="Only who uses what: GPU-hours, GPUs and memory by job and by user.")
@click.option("-o", "file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write FILE: .html, .md or .json.")
@with_config
def report(config: Config, recording: Path | None, file: Path | None, **wanted: Any) -> int:
    """Report what happened, from a recording.

    Findings with their times, evidence and remedies, actions, jobs, failing sources, gaps, and who used how many GPU-hours.
    RECORDING is a file or the folder of a cluster; default: the latest.
    """
    try:
        text = _make_report(config, recording, file, **wanted)
    except (RecordingError, ValueError) as error:
        return print_error(str(error), BAD_USAGE)
    if file is None:
        output.print_line(text)
        return DONE
    if config.readonly:
        return print_error(f"report -o: {config.readonly_reason}; without -o the report is printed", NOT_ALL)
    try:
        write_whole(file, text, OWNER_READS)
    except OSError as error:
        return print_error(f"{file}: {explain_os_error(error)}", NOT_ALL)
    output.print_line(f"Written: {file} (secrets hidden; read it before you send it)", err=True)
    return DONE


def _make_report(
    config: Config, path: Path | None, file: Path | None, *, begin: str | None, end: str | None, job: str | None, who: bool
) -> str:
    """The text of the report, in the format of the file's name. Raises `RecordingError`, `ValueError`."""
    # The format.
    markdown = who_markdown if who else account_markdown
    formats: dict[str, Callable[[Account], str]] = {".html": account_html, ".md": markdown, ".json": account_json}
    suffix = ".md" if file is None else file.suffix.lower()
    if suffix not in formats:
        raise ValueError(f"{file}: expected a name that ends in .html, .md or .json")

    # The recording, and its beginning and end: as given, else of the job, else of the last day.
    recording = find_recording(None if path is None else str(path), None, config.address)
    now = recording.end if path is not None else time.time()
    if path is None:
        recording = _with_earlier(recording, recording.end - DEFAULT_SPAN_S if begin is None else parse_moment(begin, now))
    since, until = (None if text is None else parse_moment(text, now) for text in (begin, end))
    job_begin, job_end = (None, None) if job is None else _job_span(recording, job)
    until = next(moment for moment in (until, job_end, recording.end) if moment is not None)
    since = next(moment for moment in (since, job_begin, until - DEFAULT_SPAN_S) if moment is not None)
    if since >= until or since > recording.end or until < recording.begin:
        first, last = (time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) for moment in (recording.begin, recording.end))
        raise ValueError(f"nothing was recorded in that time: {recording.path} covers {first} to {last}")

    account = make_account(recording, since, until, job)
    if job is not None and not account.jobs:
        raise ValueError(f"no job {job} was seen in that time")
    return formats[suffix](account)


def _with_earlier(recording: Recording, since: float) -> Recording:
    """The recording together with earlier sessions of the same Ray since that moment: Ray may have been restarted."""
    own = recording.path
    found = [folder for folder in folders_at(recording.cluster.address, recording.cluster.host) if folder.name != folder_name(Cluster())]
    earlier = [folder for folder in found if folder != own and max(path.stat().st_mtime for path in list_segments(folder)) >= since]
    if not earlier:
        return recording
    recording.close()
    return Recording.open(*earlier, own)


def _job_span(recording: Recording, name: str) -> tuple[float | None, float | None]:
    """Beginning and end of the job in the last Ray session that has it; a job without an end ended with its session."""
    for end in recording.session_ends:
        last = recording.snapshot_at(end)
        for job in (last.jobs if last else None) or ():
            if name in (job.id, job.job, job.submission):
                return job.started, end if job.ended is None else job.ended
    return None, None
