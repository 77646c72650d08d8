"""Records the snapshots of the poller in a thread, and states whether it records or why not."""

from __future__ import annotations

import errno
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cockpit.config.thresholds import RecordingLimits
from cockpit.model import Cluster, Snapshot
from cockpit.recording.actions_log import ActionsLog
from cockpit.recording.changes import events_between, has_news
from cockpit.recording.events import Event, Phase
from cockpit.recording.folder import SEGMENTS_IN_LIMIT, Lock, bytes_allowed, folder_name, make_folder, remove_old
from cockpit.recording.writer import SEGMENT_BYTES, SegmentWriter
from cockpit.text import explain_os_error
from cockpit.text.bug import bug
from cockpit.times.clock import CLOCK, shift_of

STEP_S = 5.0
"""Seconds between two frames without events: Ray's own agents sample no more often."""
EARLY_S = 1.0
"""A frame may come so much earlier, since snapshots come every 2 s; else it would wait for the next one."""
START_S = 15.0
"""After so many seconds a Ray with an unknown session is recorded by its address."""
RETRY_S = 30.0
"""Seconds after which recording is tried again: another cockpit may have ended, or the disk has space."""
REMOVE_EVERY_S = 600.0
MAX_WAITING = 4
"""Snapshots that wait to be written. If a disk hangs, more of them would only fill the memory."""
END_PATIENCE_S = 0.5
SMALLEST_LIMIT = 1 << 20
"""If fewer bytes are allowed, nothing is recorded."""


class RecorderState(msgspec.Struct, frozen=True):
    """The file that is written, or the reason why none is."""

    path: Path | None = None
    reason: str | None = None
    """With a path: an unusual fact about the recording."""
    is_failure: bool = False
    """Recording was wanted and fails."""
    cluster: Cluster = Cluster()
    """The cluster that this is about."""


class Recorder:
    """Records one cluster after the other, in `root`."""

    def __init__(
        self, root: Path, limits: RecordingLimits | None = None, *, actions_log: Path | None = None, clock: Callable[[], float] = CLOCK
    ) -> None:
        """`root`: has the folders of clusters; `acts_log`: the log of actions of all cockpits of this user."""
        self.state = RecorderState()
        self._root, self._limits = root, limits or RecordingLimits()
        self._actions = ActionsLog(actions_log) if actions_log else None
        self._shift = shift_of(clock)
        self._waiting: queue.Queue[Snapshot | None] = queue.Queue(MAX_WAITING + 1)
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._last = Snapshot()
        """The snapshot that was queued last."""
        self._named = Cluster()
        """The last cluster with a known session."""
        self._unknown_since: float | None = None
        # Used only in the thread
        self._before = Snapshot()
        self._cluster = Cluster()
        self._lock: Lock | None = None
        self._writer: SegmentWriter | None = None
        self._tried = self._removed = float("-inf")

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Queue it to be written, if a frame is due; never blocks."""
        if self._is_closed or not self._is_due(snapshot) or self._waiting.qsize() >= MAX_WAITING:
            return
        self._last = snapshot
        self._waiting.put_nowait(snapshot)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write the queued snapshots, but don't wait long for a disk that hangs."""
        if not self._is_closed and self._thread is not None:
            self._waiting.put_nowait(None)  # the queue has one place more than snapshots may take
            self._thread.join(END_PATIENCE_S)
        self._is_closed = True

    def state_of(self, cluster: Cluster) -> RecorderState:
        """The state for this cluster; an empty one while the last snapshot was of another cluster."""
        state = self.state
        return RecorderState() if _is_other(state.cluster, cluster) else state

    def _is_due(self, snapshot: Snapshot) -> bool:
        """Whether a frame is due, and the session is known, was known before the dashboard failed, or has been unknown for long."""
        cluster = snapshot.cluster
        if cluster.session is not None:
            self._named, self._unknown_since = cluster, None
        elif self._named.session is None or cluster.address != self._named.address:
            if self._unknown_since is None:
                self._unknown_since = snapshot.taken
            if snapshot.taken - self._unknown_since < START_S:
                return False
        return not 0 <= snapshot.taken - self._last.taken < STEP_S - EARLY_S or has_news(self._last, snapshot)

    # In the thread

    def _run(self) -> None:
        while (snapshot := self._waiting.get()) is not None:
            self._try_to_record(snapshot)
        self._end("cockpit stopped recording")

    def _try_to_record(self, snapshot: Snapshot) -> None:
        try:
            self._record(snapshot)
        except OSError as error:
            self._stop(_words(error))
        except Exception as error:  # noqa: BLE001 an error of the recorder must not end the screen
            self._stop(bug(error))

    def _record(self, snapshot: Snapshot) -> None:
        if _is_other(self._cluster, snapshot.cluster):
            if self._writer is not None:
                self._end("cockpit follows another Ray session")
            self._tried = float("-inf")
        writer = self._writer or self._begin(snapshot)
        if writer is None:
            return
        if time.monotonic() - self._removed >= REMOVE_EVERY_S:
            self._removed = time.monotonic()
            if remove_old(self._root, self._limits) > 2 * bytes_allowed(self._root, self._limits):
                raise OSError(errno.ENOSPC, "recordings take more space than their limit, and none is old enough to be removed")
        events = [*events_between(self._before, snapshot)]
        if self._actions is not None:
            nodes = {name for node in snapshot.nodes or () for name in (node.host, node.ip, node.name)}
            events += self._actions.take_new(nodes | snapshot.hosts.keys(), self._shift())
        if self._before.taken == 0.0:
            events.insert(0, _own(snapshot.taken, "begin", f"cockpit on {socket.gethostname()} started recording"))
        writer.write(snapshot, events)
        self._before = snapshot
        self.state = RecorderState(writer.path, self.state.reason, cluster=self._cluster)

    def _begin(self, snapshot: Snapshot) -> SegmentWriter | None:
        """Open the cluster's folder; `None`: another cockpit records it, or the last try is too recent. Raises `OSError`."""
        if time.monotonic() - self._tried < RETRY_S:
            return None
        self._tried, self._cluster = time.monotonic(), snapshot.cluster
        folder = self._root / folder_name(snapshot.cluster)
        make_folder(folder)
        allowed = bytes_allowed(self._root, self._limits)
        if allowed < SMALLEST_LIMIT:
            raise OSError(errno.ENOSPC, "the disk has too little space for recordings")
        lock = Lock(folder)
        is_ours = lock.take()
        if is_ours is False:
            self.state = RecorderState(None, f"recorded by {lock.holder()}", cluster=self._cluster)
            return None
        own_name = "" if is_ours else f"{folder_name(Cluster(session=socket.gethostname()))}-{os.getpid()}"
        self._lock, self._before = lock, Snapshot()
        self._writer = SegmentWriter(folder, own_name=own_name, segment_bytes=min(SEGMENT_BYTES, allowed // SEGMENTS_IN_LIMIT))
        unusual = None if is_ours else "this file system has no locks: this cockpit records in its own file"
        self.state = RecorderState(None, unusual, cluster=self._cluster)
        return self._writer

    def _stop(self, reason: str) -> None:
        """Stop after an error; recording is tried again after `RETRY_S`."""
        self._end(None)
        self._tried = time.monotonic()
        self.state = RecorderState(None, f"not recorded: {reason}", is_failure=True, cluster=self._cluster)

    def _end(self, why: str | None) -> None:
        """Close the segment, after an event with the reason if there is one, and release the lock."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None and why is not None:
                writer.write_events([_own(self._before.taken, "end", why)], self._before.taken)
            if writer is not None:
                writer.close()
        except OSError as error:
            self.state = RecorderState(None, f"not recorded: {_words(error)}", is_failure=True, cluster=self._cluster)
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _own(at: float, phase: Phase, text: str) -> Event:
    return Event(at, "recording", text, phase, key="recording:")


def _words(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full" if error.strerror == os.strerror(errno.ENOSPC) else str(error.strerror)
    if error.strerror == os.strerror(errno.EACCES):  # the reason is the kernel's, not one of ours
        return f"{error.filename}: permission denied; set XDG_STATE_HOME to a folder that you may write"
    return f"{error.filename}: {(error.strerror or '').lower()}" if error.filename else explain_os_error(error)


def _is_other(before: Cluster, now: Cluster) -> bool:
    """Whether another Ray is followed now. While its session is unknown, only its address counts."""
    if now.session is None:
        return now.address is not None and before.address is not None and now.address != before.address
    return now.session != before.session
