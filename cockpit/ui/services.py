"""Holds the objects that the app owns and its screens share: monitor, executor, recording and the newest snapshot."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from cockpit.config.settings import Config
from cockpit.config.thresholds import THREAD_MIN_NODES
from cockpit.model import Snapshot
from cockpit.monitor.history import History
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.ui.findings import HiddenFindings
from cockpit.ui.recorded import RecordedPast
from cockpit.ui.view import Index

if TYPE_CHECKING:
    from cockpit.actions.executor import ActionExecutor
    from cockpit.actions.recover.runbook import Recovery
    from cockpit.recording.recorder import Recorder

RunbookFactory: TypeAlias = "Callable[..., AbstractAsyncContextManager[Recovery]]"
"""Makes the runbook of a preset from its first step and the steps to skip, without running it. Raises `InputError`, `StepError`."""


class Services:
    """The services of one app."""

    def __init__(
        self,
        config: Config,
        monitor: ClusterMonitor,
        clock: Callable[[], float],
        make_executor: Callable[[ClusterMonitor], ActionExecutor] | None,
        runbook: RunbookFactory | None,
    ) -> None:
        """Without `make_executor` nothing can be changed: no key and no palette entry begins an action."""
        self.config, self.monitor, self.clock, self.runbook = config, monitor, clock, runbook
        self.find_executor = None if make_executor is None else cache(partial(make_executor, monitor))
        """The executor, made for the first action."""
        self.history = History(monitor.poller.tracker.memory, monitor.poller.usage)
        self.hidden = HiddenFindings()
        self.snapshot = Snapshot()
        """The newest snapshot, even if it has not been drawn."""
        self.recorder: Recorder | None = None
        """Records the snapshots."""
        self.recorded: RecordedPast | None = None
        """Reads the recording; `None`: there is none."""
        self.why_unrecorded = "nothing is recorded here"
        self._next_index = Index(self.snapshot)

    def take(self, snapshot: Snapshot) -> None:
        """Store a published snapshot."""
        self.snapshot = snapshot
        if self._next_index.snapshot is not snapshot:
            self.look_up(snapshot)
        self.hidden.forget_cleared(snapshot.findings)

    def look_up(self, snapshot: Snapshot) -> None:
        """Add a snapshot to the history and index it: the slowest part of drawing. For a large cluster a thread does it in advance."""
        self.history.record(snapshot)
        before = self._next_index
        index = Index(snapshot, self.hidden.keys)
        if len(snapshot.nodes or ()) > THREAD_MIN_NODES:
            index.precompute(before)
        self._next_index = index

    def find_index(self, snapshot: Snapshot) -> Index:
        """The index of a snapshot: the prepared one, unless the user has hidden or shown a finding since."""
        index = self._next_index
        return index if index.is_of(snapshot, self.hidden.keys) else Index(snapshot, self.hidden.keys)
