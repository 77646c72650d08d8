"""The last half hour of a recording, for somebody else to look at: a part of it, and the report on that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from cockpit.recording.cut import cut
from cockpit.recording.files import SUFFIX, RecordingError
from cockpit.recording.recording import Recording
from cockpit.report.incident.gather import make_account
from cockpit.report.incident.html import account_html
from cockpit.report.incident.markdown import account_markdown

LAST_S = 1800.0


def last_half_hour(folder: Path) -> Mapping[str, bytes]:
    """By name the files that tell of it; none where nothing of it can be read. Raises `OSError`."""
    try:
        with closing(Recording.open(folder)) as recording:
            return _files(recording)
    except RecordingError:
        return {}


def _files(recording: Recording) -> Mapping[str, bytes]:
    begin, end = max(recording.begin, recording.end - LAST_S), recording.end
    with TemporaryDirectory() as place:
        cut(recording, begin, end, path := Path(place) / f"recording{SUFFIX}")
        part = path.read_bytes()
    account = make_account(recording, begin, end)
    return {path.name: part, "report.md": account_markdown(account).encode(), "report.html": account_html(account).encode()}
