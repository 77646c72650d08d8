"""Reads the recording of the watched cluster for an agent: the state at a moment, and what began and ended between two."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final

from cockpit.agents.facts import state
from cockpit.cli.record import folders_at
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.recording.events import Event
from cockpit.recording.recorder import Recorder
from cockpit.recording.recording import Recording, RecordingError
from cockpit.sources.source import SourceError, run_in_thread
from cockpit.times.moments import ALMOST_A_SECOND, parse_moment

READ_TIMEOUT_S: Final = 30.0
_ISO_SECOND: Final = r"[^T]+T\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)"
DEFAULT_SPAN: Final = "-1h"


class Past:
    """What any cockpit has recorded of this cluster."""

    def __init__(self, monitor: ClusterMonitor, recorder: Recorder | None) -> None:
        self._monitor, self._recorder = monitor, recorder

    async def state_at(self, at: str) -> Mapping[str, Any]:
        """The state at that moment. Raises `SourceError`, also for a text that is no time."""
        moment = _moment(at, time.time())
        return await run_in_thread(partial(self._read_state, moment), "the recording", READ_TIMEOUT_S)

    async def changes(self, begin: str | None, end: str | None) -> tuple[Mapping[str, Any], Sequence[Event]]:
        """The recorded time span, and its events, the oldest first. Raises `SourceError`."""
        now = time.time()
        last = now if end is None else _moment(end, now)
        first = _moment(begin or DEFAULT_SPAN, now)
        if first >= last:
            raise SourceError("`begin` must be earlier than `end`")
        return await run_in_thread(partial(self._read_changes, first, last), "the recording", READ_TIMEOUT_S)

    def _read_state(self, moment: float) -> Mapping[str, Any]:
        with closing(self._open()) as recording:
            snapshot = recording.snapshot_at(moment)
            span = f"the recording reaches from {iso(recording.begin)} to {iso(recording.end)}"
        if snapshot is None:
            raise SourceError(f"nothing was recorded at {iso(moment)}; {span}")
        return {"at": iso(snapshot.taken), **state(snapshot)}

    def _read_changes(self, first: float, last: float) -> tuple[Mapping[str, Any], Sequence[Event]]:
        with closing(self._open()) as recording:
            events = recording.events(first, last)
            gaps = [f"{iso(begin)} to {iso(end)}" for begin, end in recording.gaps if begin < last and end > first]
            span = {"recorded_from": iso(recording.begin), "recorded_to": iso(recording.end)}
        return {"from": iso(first), "to": iso(last), **span, "not_recorded": gaps or None}, events

    def _open(self) -> Recording:
        """Raise `SourceError` if there is no recording."""
        own = self._recorder.state.path.parent if self._recorder is not None and self._recorder.state.path is not None else None
        folders = [folder for folder in folders_at(self._monitor.poller.snapshot.cluster.address, socket.gethostname()) if folder != own]
        folders += [own] if own is not None else []
        reason = self._recorder.state.reason if self._recorder is not None else "this server does not record"
        if not folders:
            raise SourceError(f"no recording of this cluster yet{f': {reason}' if reason else ''}")
        try:
            return Recording.open(*folders)
        except RecordingError as error:
            raise SourceError(str(error)) from None


def event_row(event: Event) -> Mapping[str, Any]:
    """An event in a list."""
    return {
        "at": iso(event.at),
        "what": event.kind,
        "phase": event.phase,
        "level": event.level,
        "subject": event.subject,
        "text": event.text,
    }


def iso(moment: float) -> str:
    """Return a moment as an agent can give it back: local time with its offset."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(moment))


def _moment(text: str, now: float) -> float:
    try:
        moment = parse_moment(text, now, at_its_end=True)
        return moment + ALMOST_A_SECOND if re.fullmatch(_ISO_SECOND, text.strip()) else moment  # `iso` has cut it to a second
    except ValueError as error:
        raise SourceError(str(error)) from None
